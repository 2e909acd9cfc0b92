# shellcheck shell=bash
# What `./run test` checks. Sourced by ./run.

# The project's own C and C++ files.
sources() {
  find "$root/src" "$root/include" "$root/tests" "$root/benchmarks" -type f \
    \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.c' -o -name '*.cu' \) | sort
}

set_up_checks() {
  install_packages check && return
  printf 'missing packages: sudo apt-get install -y %s\n' "$(missing_packages check | xargs)" >&2
  return 1
}

# format_sources --dry-run --Werror | -i
format_sources() { sources | xargs -r clang-format-14 --style=file "$@"; }

# Every source that the release build compiles; headers are seen through them.
lint() {
  sources | grep '\.cpp$' | grep -Fxf <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$root/build/release/compile_commands.json") |
    xargs -r -P "$jobs" -n 1 clang-tidy-14 --quiet -p "$root/build/release"
}

run_ctest() {
  local preset=$1 wrapper=()
  shift
  # ThreadSanitizer's runtime of older compilers cannot live with as much address randomization as new kernels do.
  if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then wrapper=(setarch "$(uname -m)" -R); fi
  in_root "${wrapper[@]}" ctest --preset "$preset" --no-tests=error -j "$jobs" "$@"
}

python_tests() { in_root env REPRIEVE_LIBRARY_DIR="$root/build/release/lib" PYTHONPATH="$root/python_shim" \
  "$venv/bin/python" -m pytest -p no:cacheprovider "$root/tests" --ignore="$root/tests/standin_torch"; }

# The same tests with the oldest compiler that is supported, in a build of its own.
older_compiler() {
  local folder=$root/build/release-gcc11
  cmake -G Ninja -S "$root" -B "$folder" -DCMAKE_CXX_COMPILER=g++-11 -DCMAKE_BUILD_TYPE=Release -DREPRIEVE_WERROR=ON &&
    ninja -C "$folder" && ctest --test-dir "$folder" --no-tests=error -j "$jobs" -LE 'gpu|package' --output-on-failure
}

# fuzz PRESET INSTRUCTIONS: one process a core, each with a seed of its own, which it prints.
fuzz() {
  local preset=$1 each=$(($2 / jobs + 1)) running=() process status=0
  for ((process = 0; process < jobs; ++process)); do
    "$root/build/$preset/bin/reprieve_fuzz" --instructions "$each" &
    running+=($!)
  done
  for process in "${running[@]}"; do wait "$process" || status=$?; done
  return $status
}

gpu_suite() {
  local start=$1 stride=$2
  in_root ctest --test-dir build/release --no-tests=error -L gpu -I "$start,,$stride" --output-on-failure
}

# The traces of the repository through the driver: what does not complete, or miscounts, fails.
replay_on_gpu() { reprieve replay --device cuda --repeat 1 "$root"/benchmarks/traces/*.csv.gz; }
replay_step() {
  local missing
  missing=$(missing_modules "$venv/bin/python" typer rich)
  if [ -z "$missing" ]; then
    step 'replay on the GPU' replay_on_gpu
  else
    skip 'replay on the GPU' "no Python modules $missing"
  fi
}

# torch's pluggable allocator on the GPU, and a job that is recorded there, where torch is installed.
torch_on_gpu() { in_root env REPRIEVE_LIBRARY_DIR="$root/build/release/lib" PYTHONPATH="$root/python_shim" \
  "$venv/bin/python" -m pytest -p no:cacheprovider "$root"/tests/python/test_*_on_gpu.py; }
torch_step() {
  local missing
  missing=$(missing_modules "$venv/bin/python" pytest torch typer rich)
  if [ -z "$missing" ]; then
    test_step 'torch on the GPU' torch_on_gpu
  else
    skip 'torch on the GPU' "no Python modules $missing"
  fi
}

run_tests() {
  local gpu=no shard=1/1
  while [ $# -gt 0 ]; do
    case $1 in
      --gpu) gpu=only ;;
      --shard) shard=${2:-}; shift ;;
      *) printf 'unknown argument: %s\n' "$1" >&2; return 2 ;;
    esac
    shift
  done
  if ! [[ $shard =~ ^([1-9][0-9]*)/([1-9][0-9]*)$ ]] || [ "${BASH_REMATCH[1]}" -gt "${BASH_REMATCH[2]}" ]; then
    printf -- '--shard wants k/n with 1 <= k <= n, for example 1/4; got: %s\n' "$shard" >&2
    return 2
  fi
  local first=${BASH_REMATCH[1]} stride=${BASH_REMATCH[2]}
  set_up build
  if [ $gpu = only ]; then
    if build release; then
      test_step "GPU tests $shard" gpu_suite "$first" "$stride"
      if [ "$first" = 1 ]; then
        replay_step
        torch_step
      fi
    fi
    finish
    return
  fi
  run_all_checks
  if has_gpu; then
    test_step 'GPU tests' gpu_suite 1 1
    replay_step
    torch_step
  fi
  finish
}

# A step that fails does not keep the others from being run, but for those that need its result.
run_all_checks() {
  local missing
  install_packages check
  if have clang-format-14; then
    step 'format' format_sources --dry-run --Werror
  else
    skip 'format' 'no clang-format-14'
  fi
  if build release; then
    test_step 'tests, release' run_ctest release
    set_up_plot || true
    missing=$(missing_modules "$venv/bin/python" build matplotlib pytest rich scikit_build_core typer)
    if [ -z "$missing" ]; then
      test_step 'Python tests' python_tests
    else
      skip 'Python tests' "no Python modules $missing"
    fi
    step 'fuzz, release, 5,000,000' fuzz release 5000000
    if have clang-tidy-14; then step 'lint' lint; else skip 'lint' 'no clang-tidy-14'; fi
  fi
  torch_checks
  if have g++-11; then test_step 'release with g++ 11' older_compiler; else skip 'release with g++ 11' 'no g++-11'; fi
  if build asan-ubsan; then
    test_step 'tests, asan-ubsan' run_ctest asan-ubsan
    step 'fuzz, asan-ubsan, 300,000' fuzz asan-ubsan 300000
  fi
  if build tsan concurrent_tests; then test_step 'tests, tsan' run_ctest tsan; fi
}

# Headers, libraries and CMake files of the packages that the build takes from the system.
copy_dependencies() {
  mkdir -p "$root/build/deps"
  local package packages files
  mapfile -t packages < <(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' libfmt-dev 'libfmt[0-9]*' libspdlog-dev \
    'libspdlog[0-9]*' libgtest-dev libbenchmark-dev 'libbenchmark[0-9]*' 2>/dev/null | sed -n 's/^ii *//p')
  for package in "${packages[@]}"; do
    files=$(dpkg-query -L "$package" 2>/dev/null | grep -E '^/usr/(include|lib)/') || continue
    while read -r file; do
      [ -d "$file" ] || (cd / && cp --parents -d "${file#/}" "$root/build/deps")
    done <<<"$files"
  done
}
