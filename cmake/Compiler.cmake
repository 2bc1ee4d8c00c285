# Compilers, language level, warnings and sanitizers.

# gcc 12 destroys temporaries twice in co_await expressions, and clang before 16 lacks parts of
# C++20 that the runtime needs; a build with either would crash in the field, so it is refused here.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  message(FATAL_ERROR "headrace needs clang >= 16 (found ${CMAKE_CXX_COMPILER_VERSION}): older "
                      "ones lack C++20 features of the coroutine runtime. On Debian 12: clang-19.")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR "headrace needs gcc >= 14 (found ${CMAKE_CXX_COMPILER_VERSION}): older ones "
                      "destroy temporaries twice in co_await expressions and the program crashes. "
                      "On Debian 12 use clang-19: cmake -DCMAKE_CXX_COMPILER=clang++-19")
elseif(NOT CMAKE_CXX_COMPILER_ID MATCHES "^(Clang|GNU)$")
  message(FATAL_ERROR "headrace is built and tested with clang >= 16 and gcc >= 14, not with "
                      "${CMAKE_CXX_COMPILER_ID}")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(LLD NAMES ld.lld-19 ld.lld)
if(LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_link_options(-fuse-ld=lld)
endif()

set(HEADRACE_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")
if(HEADRACE_SANITIZE)
  add_compile_options(-fsanitize=${HEADRACE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HEADRACE_SANITIZE})
endif()

# All code counts as covered, not only the fuzz target's own file.
if(HEADRACE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

add_library(headrace_warnings INTERFACE)
target_compile_options(headrace_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-unused-parameter)
