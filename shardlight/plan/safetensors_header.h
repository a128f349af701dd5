// A model from the header of a safetensors file: which tensors it has, of which shape and element
// type, without reading their data. This folder opens no files: the caller reads the first 8 bytes,
// asks how long the header is, and reads that.
//
// Pure functions of their arguments, safe on any bytes and from any thread.
//
// Source: the format's description and reference implementation,
// https://github.com/huggingface/safetensors (README.md, "Format"; safetensors/src/tensor.rs).
#pragma once

#include <string>
#include <string_view>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"
#include "shardlight/plan/model.h"

namespace shardlight::plan {

// The number at the start of a file, little-endian, that says how long the header after it is.
inline constexpr Bytes kSafetensorsPrefix{8};
// The reference implementation's limit; a longer header is not read.
inline constexpr Bytes kLargestSafetensorsHeader{100'000'000};

// The length of the header that `first_8_bytes` of a file of `file_size` announce.
// Errors (user, field "header length"): fewer than 8 bytes, or a length above the limit or beyond
// the end of the file.
Result<Bytes> safetensors_header_size(std::string_view first_8_bytes, Bytes file_size);

// A row for each tensor, in the order of the data (of two empty tensors at the same offset, by
// name), but for integers and flags, which are never trained. Every other tensor is counted as a
// parameter: the format does not tell buffers from parameters, nor which tensors were tied before
// one of them was left out. Model::shape stays empty.
//
// `data_size` is what follows the header: the file's size - 8 - the header's. Errors (user): text
// that is not a JSON object beginning with '{'; and with the tensor's name and the key as the
// field, an element type that is not known, a shape or offsets that are not whole numbers, offsets
// that do not span the shape's bytes, overlap, leave a hole, or do not end where the data does, a
// tensor twice; and metadata that is not strings.
Result<Model> model_from_safetensors_header(std::string_view header_json, Bytes data_size,
                                            std::string name);

}  // namespace shardlight::plan
