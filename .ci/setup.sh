# shellcheck shell=bash
# Set-up of a fresh Debian 12 or Ubuntu 24.04: system packages, the private Python environment build/venv, and the
# build. Sourced by ./run. Each part does nothing when it has been done.

venv=$root/build/venv
base_python=$(command -v python3 || true)

have() { command -v "$1" >/dev/null 2>&1; }
have_header() { compgen -G "/usr/include/$1" >/dev/null || compgen -G "/usr/local/include/$1" >/dev/null ||
  compgen -G "$root/build/deps/usr/include/$1" >/dev/null; }
cmake_is_new_enough() {
  have cmake && [ "$(printf '%s\n' 3.22 "$(cmake --version | sed -n 's/^cmake version //p')" | sort -V | head -n 1)" = 3.22 ]
}
python_is_new_enough() { "${base_python:-false}" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
python_has_pip() { "${base_python:-false}" -c 'import ensurepip, venv' 2>/dev/null; }
# missing_modules PYTHON MODULE…: the names of those that it cannot import.
missing_modules() {
  local python=$1
  shift
  "$python" -c 'import importlib.util as u, sys; print(*[m for m in sys.argv[1:] if not u.find_spec(m)])' "$@"
}
# Without pip a Python still serves where it has what the commands import.
python_is_usable() { python_has_pip || { [ -n "$base_python" ] && [ -z "$(missing_modules "$base_python" typer rich)" ]; }; }

# Names of Debian packages that this machine lacks, by what they are for: "library" (the two libraries and the command
# line), "build" (tests and benchmarks too), "check" (CI's tools) or "torch" (its tests).
missing_packages() {
  if [ "$1" = torch ]; then
    have g++ || echo g++
    has_python_header "$base_python" || echo python3-dev
    python_has_pip || echo python3-venv
    return
  fi
  if [ "$1" = check ]; then
    have g++-11 || echo g++-11
    have clang-format-14 || echo clang-format-14
    have clang-tidy-14 || echo clang-tidy-14
    return
  fi
  have g++ || have clang++ || echo g++
  cmake_is_new_enough || echo cmake
  have ninja || echo ninja-build
  have_header fmt/format.h || echo libfmt-dev
  have_header spdlog/spdlog.h || echo libspdlog-dev
  python_is_new_enough || echo python3
  python_is_usable || echo python3-venv
  if [ "$1" = build ]; then
    have_header gtest/gtest.h || echo libgtest-dev
    have_header benchmark/benchmark.h || echo libbenchmark-dev
  fi
}

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }
can_be_root() { [ "$(id -u)" -eq 0 ] || { have sudo && sudo -n true 2>/dev/null; }; }

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=2 -o Acquire::http::Timeout=20 "$@"; }
apt_install() {
  apt_get install -y --no-install-recommends "$@" && return
  # A fresh image has no package lists, an old one lists that name files no longer served.
  apt_get update && apt_get install -y --no-install-recommends "$@"
}

# install_packages library|build|check: 0 when nothing is missing any more.
install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$1")
  [ ${#missing[@]} -gt 0 ] || return 0
  have apt-get && can_be_root || return 1
  step "install packages ($1)" apt_install "${missing[@]}" || return 1
  hash -r
  base_python=$(command -v python3 || true)
  mapfile -t missing < <(missing_packages "$1")
  [ ${#missing[@]} -eq 0 ]
}

# A machine without an index to install from may have all modules already: then the environment only refers to them.
# (Not --system-site-packages: that of a Python which is itself in an environment leads past it.)
create_venv() {
  rm -rf "$venv"
  if python_has_pip && "$base_python" -m venv "$venv" &&
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 -r "$root/.ci/requirements.txt"; then
    return
  fi
  echo "no package index: using the modules of $base_python"
  rm -rf "$venv"
  "$base_python" -m venv --without-pip "$venv" &&
    "$base_python" -c 'import sys; print(*[p for p in sys.path if p.endswith("-packages")], sep="\n")' \
      >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/outer.pth"
}

set_up_python() {
  local wanted
  wanted=$({ cat "$root/.ci/requirements.txt" && "$base_python" -VV && echo "$base_python"; } | sha256sum)
  if [ ! -f "$venv/stamp" ] || [ "$(cat "$venv/stamp")" != "$wanted" ]; then
    step 'Python environment' create_venv || return 1
    echo "$wanted" >"$venv/stamp"
  fi
}

# What pictures need, only when one is asked for: it is as large as all the rest. Without an index, what there is.
set_up_plot() {
  [ -n "$(missing_modules "$venv/bin/python" matplotlib)" ] || return 0
  python_has_pip || return 1
  step 'matplotlib' "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 \
    -r "$root/.ci/requirements-plot.txt"
}

# need_modules MODULE…: one line where the Python environment has not got them.
need_modules() {
  local missing
  missing=$(missing_modules "$venv/bin/python" "$@")
  [ -n "$missing" ] || return 0
  printf 'missing Python modules, see build/logs/Python_environment.log: %s\n' "$missing" >&2
  rm -f "$venv/stamp"  # the next command tries again to install them
  return 1
}

# What apt could not install: cmake and ninja come from pip, the rest is named with the command that installs it.
set_up_without_apt() {
  local missing from_pip=() from_apt=() package
  mapfile -t missing < <(missing_packages "$1")
  for package in "${missing[@]}"; do
    case $package in
      cmake) from_pip+=('cmake>=3.22') ;;
      ninja-build) from_pip+=(ninja) ;;
      *) from_apt+=("$package") ;;
    esac
  done
  if [ ${#from_apt[@]} -gt 0 ]; then
    printf 'missing packages: sudo apt-get install -y %s\n' "${from_apt[*]}" >&2
    return 1
  fi
  set_up_python || return 1
  if [ ${#from_pip[@]} -gt 0 ]; then
    step 'cmake and ninja from pip' "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
      "${from_pip[@]}" || return 1
    PATH=$venv/bin:$PATH
    hash -r
  fi
}

# set_up library|build: everything that building and running here needs.
set_up() {
  [ ! -x "$venv/bin/cmake" ] || PATH=$venv/bin:$PATH
  if ! install_packages "$1"; then set_up_without_apt "$1" || exit 1; fi
  set_up_python || exit 1
}

# build PRESET [targets]: configures once, then builds what has changed.
build() {
  local preset=$1 folder=$root/build/$1 configure name="build $1"
  shift
  configure=(cmake --preset "$preset")
  # For the commands that need the libraries only, tests and benchmarks join when their packages do.
  have_header gtest/gtest.h || configure+=(-DREPRIEVE_TESTS=OFF)
  have_header benchmark/benchmark.h || configure+=(-DREPRIEVE_BENCHMARKS=OFF)
  [ ! -d "$root/build/deps" ] || configure+=("-DCMAKE_PREFIX_PATH=$root/build/deps/usr")
  if [ "${CI:-}" = true ]; then configure+=(-DREPRIEVE_WERROR=ON); fi
  if [ ! -f "$folder/build.ninja" ] || [ "$(cat "$folder/configured" 2>/dev/null)" != "${configure[*]}" ]; then
    step "configure $preset" in_root "${configure[@]}" || return 1
    echo "${configure[*]}" >"$folder/configured"
  fi
  [ $# -eq 0 ] || name="$name, $1"
  # Nothing to build is no step.
  if ! ninja -C "$folder" -n "$@" 2>/dev/null | grep -q 'no work to do'; then
    step "$name" ninja -C "$folder" "$@" || return 1
  fi
}

in_root() { (cd "$root" && "$@"); }
