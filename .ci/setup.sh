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
python_has_modules() { "$base_python" -c 'import build, numpy, pytest, rich, scikit_build_core, typer' 2>/dev/null; }
python_can_make_venv() { "${base_python:-false}" -c 'import ensurepip, venv' 2>/dev/null || python_has_modules; }

# Names of Debian packages that this machine lacks for "build" (library, tests, benchmarks) or "check" (CI's tools).
missing_packages() {
  if [ "$1" = build ]; then
    have g++ || have clang++ || echo g++
    cmake_is_new_enough || echo cmake
    have ninja || echo ninja-build
    have_header fmt/format.h || echo libfmt-dev
    have_header spdlog/spdlog.h || echo libspdlog-dev
    have_header gtest/gtest.h || echo libgtest-dev
    have_header benchmark/benchmark.h || echo libbenchmark-dev
    python_is_new_enough || echo python3
    python_can_make_venv || echo python3-venv
  else
    have g++-11 || echo g++-11
    have clang-format-14 || echo clang-format-14
    have clang-tidy-14 || echo clang-tidy-14
  fi
}

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }
can_be_root() { [ "$(id -u)" -eq 0 ] || { have sudo && sudo -n true 2>/dev/null; }; }

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get install -y -qq --no-install-recommends "$@" && return
  # A fresh image has no package lists, an old one lists that name files no longer served.
  as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends "$@"
}

# install_packages build|check: 0 when nothing is missing any more.
install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$1")
  [ ${#missing[@]} -gt 0 ] || return 0
  have apt-get && can_be_root || return 1
  step "install packages ($1)" apt_install "${missing[@]}" || return 1
  hash -r
  mapfile -t missing < <(missing_packages "$1")
  [ ${#missing[@]} -eq 0 ]
}

# A machine without an index to install from may have all modules already: then the environment only refers to them.
create_venv() {
  rm -rf "$venv"
  "$base_python" -m venv "$venv" &&
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 -r "$root/.ci/requirements.txt" &&
    return
  python_has_modules || return 1
  echo "no package index: using the modules of $base_python"
  rm -rf "$venv"
  "$base_python" -m venv --without-pip "$venv" &&
    "$base_python" -c 'import sysconfig; print(*{sysconfig.get_path(p) for p in ("purelib", "platlib")}, sep="\n")' \
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

# Without root, cmake and ninja come from pip; what pip has not is named with the command that installs it.
set_up_without_root() {
  local missing from_pip=() from_apt=() package
  mapfile -t missing < <(missing_packages build)
  for package in "${missing[@]}"; do
    case $package in
      cmake) from_pip+=('cmake>=3.22') ;;
      ninja-build) from_pip+=(ninja) ;;
      *) from_apt+=("$package") ;;
    esac
  done
  if [ ${#from_apt[@]} -gt 0 ]; then
    printf 'missing, and not to be installed without root: sudo apt-get install -y %s\n' "${from_apt[*]}" >&2
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

# Everything that building and running here needs.
set_up() {
  [ ! -x "$venv/bin/cmake" ] || PATH=$venv/bin:$PATH
  if ! install_packages build; then set_up_without_root || exit 1; fi
  set_up_python || exit 1
}

# build PRESET [cmake arguments]: configures once, then builds what has changed.
build() {
  local preset=$1 folder=$root/build/$1 configure
  shift
  configure=(cmake --preset "$preset" "$@")
  [ ! -d "$root/build/deps" ] || configure+=("-DCMAKE_PREFIX_PATH=$root/build/deps/usr")
  if [ "${CI:-}" = true ]; then configure+=(-DREPRIEVE_WERROR=ON); fi
  if [ ! -f "$folder/build.ninja" ] || [ "$(cat "$folder/configured" 2>/dev/null)" != "${configure[*]}" ]; then
    step "configure $preset" in_root "${configure[@]}" || return 1
    echo "${configure[*]}" >"$folder/configured"
  fi
  # Nothing to build is no step.
  if ! ninja -C "$folder" -n 2>/dev/null | grep -q 'no work to do'; then
    step "build $preset" ninja -C "$folder" || return 1
  fi
}

in_root() { (cd "$root" && "$@"); }
