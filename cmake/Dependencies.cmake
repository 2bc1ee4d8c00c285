# Everything comes from the distribution; docs/dependencies.md says what each one is for.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(absl REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(simdjson REQUIRED)
find_package(mimalloc REQUIRED)
find_package(ZLIB REQUIRED)

# Under ASan, absl from 2023 on lays out hash tables otherwise than the distribution's library has
# them (generations, for stale iterators): a crash at the first table. Its name for "do not". The
# source goes into every program.
set(HEADRACE_SANITIZER_SOURCES)
if(absl_VERSION VERSION_GREATER_EQUAL 20230101 AND HEADRACE_SANITIZE MATCHES "address")
  add_compile_definitions(NDEBUG_SANITIZER)
  set(HEADRACE_SANITIZER_SOURCES ${PROJECT_SOURCE_DIR}/cmake/asan_options.cc)
endif()

pkg_check_modules(PROTOBUF REQUIRED IMPORTED_TARGET protobuf)
pkg_check_modules(GRPCPP REQUIRED IMPORTED_TARGET grpc++)
pkg_check_modules(NGHTTP2 REQUIRED IMPORTED_TARGET libnghttp2)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.88)
pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

# Debian's libgrpc++-dev has it without a pkg-config file.
find_library(GRPCPP_REFLECTION grpc++_reflection REQUIRED)

find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
