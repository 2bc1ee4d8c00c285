# Shared by the scripts of this folder; sourced, not run.

# The compilers that headrace is built with, the tested one first. Older clang lacks parts of C++20,
# and gcc before 14 destroys temporaries twice in co_await expressions.
CLANG_VERSIONS="19 20 21 18 17 16"
GCC_VERSIONS="14 15"

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Prints a suitable compiler that is installed; fails if there is none. $CXX wins.
find_compiler() {
  local version
  if [ -n "${CXX:-}" ]; then
    command -v "$CXX"
    return
  fi
  for version in $CLANG_VERSIONS; do
    command -v "clang++-$version" && return
  done
  for version in $GCC_VERSIONS; do
    command -v "g++-$version" && return
  done
  return 1
}

# Compilations at once: one per core, and no more than memory allows (1.5 GB each with sanitizers).
build_jobs() {
  local cores memory_kb by_memory
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  by_memory=$((memory_kb / 1500000))
  [ "$by_memory" -ge 1 ] || by_memory=1
  if [ "$by_memory" -lt "$cores" ]; then echo "$by_memory"; else echo "$cores"; fi
}
