# shellcheck shell=bash
# torch on the stand-in CUDA runtime, without a GPU: an environment for each torch, a build of the stand-in for it, and
# tests/standin_torch there. Sourced by ./run.
#
# Of torch's own packages only torch and Triton are installed: NVIDIA's libraries are 3 GB that the stand-in replaces.

torch_gib_needed=4  # of disk, for each environment

# The files of tests/torch that pass and take seconds; the others are run by hand until they do (docs/compatibility.md).
adapter_tests=()
for name in statistics limits mempools streams graphs install; do adapter_tests+=("$root/tests/torch/test_$name.py"); done

has_python_header() { [ -f "$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; }

# newest_torch: its version on the index; nothing where there is none to be reached.
newest_torch() {
  "$base_python" -m pip index versions torch --disable-pip-version-check 2>/dev/null | sed -n '1s/^torch (\(.*\))$/\1/p'
}

# What runs on the newest torch: the quick half of tests/standin_torch (docs/standin.md says what fails there).
newest_tests=()
for name in allocator copies devices graphs streams; do newest_tests+=("$root/tests/standin_torch/test_$name.py"); done

# create_torch FOLDER VERSION: torch and what the tests import, none with its dependencies. The versions of Triton and of
# CUDA's headers are torch's to say.
create_torch() {
  local folder=$1 metadata triton cuda
  rm -rf "$folder"
  "$base_python" -m venv "$folder" || return 1
  local pip=("$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps)
  "${pip[@]}" "torch==$2" || return 1
  metadata=$(find "$folder"/lib/python*/site-packages/torch-*.dist-info -name METADATA)
  triton=$(sed -n 's/^Requires-Dist: \(triton[=~]=[0-9.]*\).*/\1/p' "$metadata" | head -n 1)
  cuda=$(sed -n 's/^Requires-Dist: cuda-toolkit.*==\([0-9]*\.[0-9]*\)\..*/\1/p' "$metadata" | head -n 1)
  if [ -z "$triton" ] || [ -z "$cuda" ]; then
    echo "torch $2 does not say which Triton and CUDA it needs: '$triton', '$cuda'" >&2
    return 1
  fi
  "${pip[@]}" "$triton" "nvidia-cuda-runtime==$cuda.*" "nvidia-cuda-crt==$cuda.*" -r "$root/.ci/torch-requirements.txt"
}

# set_up_torch NAME VERSION: build/NAME has this torch. A stamp tells what it was made of.
set_up_torch() {
  local name=$1 folder=$root/build/$1 wanted
  wanted=$({ echo "$2" && cat "$root/.ci/torch-requirements.txt" && "$base_python" -VV; } | sha256sum)
  if [ -f "$folder/stamp" ] && [ "$(cat "$folder/stamp")" = "$wanted" ]; then return; fi
  step "environment $name" create_torch "$folder" "$2" || return 1
  echo "$wanted" >"$folder/stamp"
}

# why_no_torch: one line where this machine cannot have the environments.
why_no_torch() {
  local free
  python_has_pip || { echo 'python3 has no venv module (python3-venv)'; return; }
  have g++ || { echo 'no g++, with which Triton and the C++ program are built'; return; }
  has_python_header "$base_python" || { echo 'no Python.h, with which Triton builds its launcher (python3-dev)'; return; }
  free=$(df --output=avail -BG "$root/build" | tail -n 1 | tr -dc 0-9)
  [ "$free" -ge $torch_gib_needed ] || echo "$free GiB of disk are free, an environment with torch takes $torch_gib_needed"
}

# A build of its own for each torch: sonames and symbol versions are that torch's.
build_standin() {
  local name=$1 folder=$root/build/standin-$1 site
  site=$("$root/build/$name/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  local configure=(cmake -G Ninja -S "$root" -B "$folder" -DCMAKE_BUILD_TYPE=Release -DREPRIEVE_TESTS=OFF
    "-DREPRIEVE_STANDIN_TORCH=$site" "-DREPRIEVE_TORCH_PYTHON=$root/build/$name/bin/python"
    "-DREPRIEVE_CUDA_INCLUDE=$(echo "$site"/nvidia/cu*/include)")
  [ ! -d "$root/build/deps" ] || configure+=("-DCMAKE_PREFIX_PATH=$root/build/deps/usr")
  if [ "${CI:-}" = true ]; then configure+=(-DREPRIEVE_WERROR=ON); fi
  "${configure[@]}" && ninja -C "$folder" reprieve reprieve_standin reprieve_torch
}

standin_tests() {
  local name=$1
  shift
  in_root env REPRIEVE_LIBRARY_DIR="$root/build/standin-$name/lib" "$root/build/standin-$name/bin/reprieve-standin" \
    "$root/build/$name/bin/python" -m pytest -p no:cacheprovider --durations=10 "$@"
}

# torch_checks: both torches; the newest without what takes longest.
torch_checks() {
  local why newest
  mkdir -p "$root/build"
  install_packages torch
  why=$(why_no_torch)
  newest=$(newest_torch)
  [ -n "$newest" ] || [ -d "$root/build/torch-2.11" ] || why=${why:-no package index to install torch from}
  if [ -n "$why" ]; then
    skip 'torch 2.11.0 on the stand-in' "$why"
    skip 'newest torch on the stand-in' "$why"
    return
  fi
  if set_up_torch torch-2.11 2.11.0 && step 'stand-in for torch 2.11.0' build_standin torch-2.11; then
    test_step 'torch 2.11.0 on the stand-in' standin_tests torch-2.11 "$root/tests/standin_torch"
    test_step 'the adapter to torch 2.11.0' standin_tests torch-2.11 "${adapter_tests[@]}"
  fi
  if [ -z "$newest" ]; then
    skip 'newest torch on the stand-in' 'no package index to ask which it is'
  elif set_up_torch torch-newest "$newest" && step "stand-in for torch $newest" build_standin torch-newest; then
    echo "torch $newest: the quick half of the tests"
    test_step "torch $newest on the stand-in" standin_tests torch-newest "${newest_tests[@]}"
    test_step "the adapter to torch $newest" standin_tests torch-newest "${adapter_tests[@]}"
  fi
}
