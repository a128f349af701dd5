# shardlight_library(base SOURCES a.cpp … PUBLIC libs… PRIVATE libs…): one library a layer, seen by
# others as shardlight::base, with the headers beside its sources. It is installed with the project,
# unless INTERNAL says that only the program uses it.
function(shardlight_library layer)
  cmake_parse_arguments(ARG "INTERNAL" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(target shardlight_${layer})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(shardlight::${layer} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${layer})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(
    ${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  if(NOT ARG_INTERNAL)
    set_property(GLOBAL APPEND PROPERTY SHARDLIGHT_LIBRARIES ${target})
  endif()
endfunction()

# shardlight_test(base SOURCES … LIBS …): one test program a layer, its cases known to ctest.
function(shardlight_test layer)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  set(target ${layer}_test)
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE shardlight::${layer} ${ARG_LIBS} GTest::gmock
                                          GTest::gtest_main)
  gtest_discover_tests(${target} TEST_PREFIX ${layer}. PROPERTIES LABELS ${layer})
endfunction()
