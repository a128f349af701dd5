# PyTorch, for the engine and what is right of it: target `torch`. It is the one of .venv unless
# Torch_DIR or CMAKE_PREFIX_PATH say otherwise.
if(NOT Torch_DIR AND NOT CMAKE_PREFIX_PATH)
  file(GLOB torch_package ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  if(torch_package)
    set(Torch_DIR ${torch_package}/share/cmake/Torch CACHE PATH "Folder of TorchConfig.cmake")
  endif()
endif()
find_package(Torch 2.13 REQUIRED)
