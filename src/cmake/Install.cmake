# The install tree: lib/, include/ and lib/cmake/reprieve/ under one prefix. A wheel is the same tree inside the Python
# package (pyproject.toml), but for the link names: a wheel holds no symbolic links, so it would carry copies.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(NOT TARGET reprieve)
  return()
endif()
if(SKBUILD)
  set(CMAKE_INSTALL_LIBDIR lib)
  set(reprieve_namelink NAMELINK_SKIP)
endif()
set(reprieve_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reprieve)

install(TARGETS reprieve EXPORT reprieveTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT reprieve ${reprieve_namelink}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Loaded by libreprieve.so from its own folder when a simulated device is asked for.
install(TARGETS reprieve_simgpu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT reprieve)
if(TARGET reprieve_replay_library)
  install(TARGETS reprieve_replay_library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT reprieve)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/reprieve DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT reprieve)

install(EXPORT reprieveTargets NAMESPACE reprieve:: DESTINATION ${reprieve_cmake_dir} COMPONENT reprieve)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/reprieveConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/reprieveConfig.cmake INSTALL_DESTINATION ${reprieve_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/reprieveConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/reprieveConfig.cmake ${PROJECT_BINARY_DIR}/reprieveConfigVersion.cmake
        DESTINATION ${reprieve_cmake_dir} COMPONENT reprieve)
