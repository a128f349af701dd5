# The Python package: option SHARDLIGHT_PYTHON, and Python3 with the headers for modules. It is the
# interpreter of .venv unless Python3_EXECUTABLE says otherwise, as pip does.
option(SHARDLIGHT_PYTHON "Build the Python package where Python's headers are found" ON)
if(NOT Python3_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python3_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH
                                                                "Python that has PyTorch")
endif()
find_package(Python3 3.10 COMPONENTS Interpreter Development.Module)
if(SHARDLIGHT_PYTHON AND NOT Python3_Development.Module_FOUND)
  if(SKBUILD)
    message(FATAL_ERROR "Python's headers are not installed (python3-dev)")
  endif()
  message(STATUS "No Python package: Python's headers are not installed (python3-dev)")
  set(SHARDLIGHT_PYTHON OFF)
endif()
