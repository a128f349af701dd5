# PyTorch, for the engine and what is right of it: target `torch`. It is the one that Python3 has
# unless Torch_DIR or CMAKE_PREFIX_PATH say otherwise; its folder is asked for without an import, as
# pip builds in an environment that hides it.
if(NOT Torch_DIR AND NOT CMAKE_PREFIX_PATH AND Python3_EXECUTABLE)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('platlib'))"
    OUTPUT_VARIABLE packages OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(EXISTS ${packages}/torch)
    set(Torch_DIR ${packages}/torch/share/cmake/Torch CACHE PATH "Folder of TorchConfig.cmake")
  elseif(SKBUILD)
    message(FATAL_ERROR "torch is not installed in ${packages}: pip install torch==2.13.0 first, "
                        "as shardlight is built against the one it will run with")
  endif()
endif()
find_package(Torch 2.13 REQUIRED)
