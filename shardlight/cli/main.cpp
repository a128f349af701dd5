#include <unistd.h>

#include <iostream>

#include "shardlight/cli/program.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return shardlight::cli::run_program(
      arguments, shardlight::Environment::of_process(),
      {.out = std::cout, .err = std::cerr, .terminal = ::isatty(STDOUT_FILENO) == 1});
}
