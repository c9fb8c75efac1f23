# SPDX-License-Identifier: BSD-3-Clause
# What makes a fault in reading a stranger's file hard to use, a stack that cannot grow unseen, and builds that give the same bytes
# wherever they are made. tools/reproducible shows the last; the test `hardened` looks at the program for the rest.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckPIESupported)
check_pie_supported()

function(add_flag_where_known flag)
  string(MAKE_C_IDENTIFIER "has${flag}" known)
  check_c_compiler_flag(${flag} ${known})
  if(${known})
    add_compile_options(${flag})
  endif()
endfunction()

# The kernels do without the first (src/CMakeLists.txt): they write to their caller's rows only, by sizes that were checked before.
add_flag_where_known(-fstack-protector-strong)
add_flag_where_known(-fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_flag_where_known(-fcf-protection)
endif()
add_compile_options(-Wformat -Wformat-security -Werror=format-security)

# The C library's own checks of sizes, where the compiler optimises enough for them. A distribution may have set its own.
if(NOT UNI_SANITIZE AND NOT UNI_FUZZ AND NOT CMAKE_BUILD_TYPE STREQUAL Debug)
  set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_c_source_compiles("#include <stdio.h>\nint main(void) { return 0; }" has_fortify_3)
  unset(CMAKE_REQUIRED_FLAGS)
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$<IF:$<BOOL:${has_fortify_3}>,3,2>)
endif()

# Tables of addresses are read-only from the start, no stack can be run.
add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)

# No function takes more of a stack than this, none takes what is only known as it runs (-Wvla, no alloca): with UNI_WERROR the build
# fails where one would. The deepest chain of calls, in any thread, fits 256 KB (tests/cli/small_stack.sh). Sanitizers take more.
if(NOT UNI_SANITIZE AND NOT UNI_FUZZ)
  add_compile_options(-Wframe-larger-than=16384 -Walloca)
endif()

# Names of folders do not go into what is built.
add_flag_where_known(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
add_flag_where_known(-ffile-prefix-map=${PROJECT_BINARY_DIR}/=)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
