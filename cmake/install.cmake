# SPDX-License-Identifier: BSD-3-Clause
# What `cmake --install` puts where. A user finds the library by pkg-config (unisono) or by find_package(unisono): the targets
# unisono::unisono and, where LAPACK is found, unisono::unisono_static.
include(CMakePackageConfigHelpers)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/unisono)

install(FILES include/unisono.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Two exports, because only the static library asks its user for LAPACK.
foreach(target unisono unisono_static)
  install(TARGETS ${target} EXPORT ${target}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT ${target} NAMESPACE unisono:: DESTINATION ${config_folder} FILE ${target}Targets.cmake)
endforeach()

configure_package_config_file(cmake/unisonoConfig.cmake.in unisonoConfig.cmake INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(unisonoConfigVersion.cmake COMPATIBILITY SameMinorVersion) # 0.x may change with x
install(FILES ${CMAKE_BINARY_DIR}/unisonoConfig.cmake ${CMAKE_BINARY_DIR}/unisonoConfigVersion.cmake DESTINATION ${config_folder})

# From the .pc file's own place, so that an installed tree may be moved and --prefix may be given late.
file(RELATIVE_PATH PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH LIBDIR_FROM_PREFIX ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH INCLUDEDIR_FROM_PREFIX ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/unisono.pc.in unisono.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/unisono.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
