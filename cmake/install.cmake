# `cmake --install`: the libraries, their headers, the program, and what find_package(shardlight)
# of another project reads. tests/install builds such a project.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/shardlight)
get_property(libraries GLOBAL PROPERTY SHARDLIGHT_LIBRARIES)

install(TARGETS ${libraries} EXPORT shardlightTargets)
install(EXPORT shardlightTargets NAMESPACE shardlight:: DESTINATION ${package_dir})
install(TARGETS shardlight)
if(SHARDLIGHT_ENGINE)
  install(TARGETS shardlight-train)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(library IN LISTS libraries)
  get_target_property(folder ${library} SOURCE_DIR)
  get_target_property(layer ${library} EXPORT_NAME)
  # Headers that say "Internal to" in their first lines are not for others.
  file(GLOB_RECURSE headers RELATIVE ${folder} CONFIGURE_DEPENDS ${folder}/*.h)
  foreach(header IN LISTS headers)
    file(STRINGS ${folder}/${header} internal LIMIT_INPUT 800 REGEX "Internal to")
    get_filename_component(subfolder ${header} DIRECTORY)
    if(NOT internal)
      install(FILES ${folder}/${header}
              DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/shardlight/${layer}/${subfolder})
    endif()
  endforeach()
endforeach()

# In a folder of their own, where find_package() does not take the build for an installation.
set(package_files ${CMAKE_CURRENT_BINARY_DIR}/package)
configure_package_config_file(cmake/shardlightConfig.cmake.in
                              ${package_files}/shardlightConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${package_files}/shardlightConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${package_files}/shardlightConfig.cmake
              ${package_files}/shardlightConfigVersion.cmake
        DESTINATION ${package_dir})
