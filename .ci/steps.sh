# shellcheck shell=bash
# Steps: one line each, with the time taken; the whole output in build/logs/. Sourced by ./run.

failed_steps=()
skipped_steps=()

# step NAME COMMAND…: runs the command. A failure shows the command and the end of its output, is remembered, and
# returned.
step() {
  local name=$1 log start status=0
  shift
  log=$root/build/logs/${name//[^A-Za-z0-9.+-]/_}.log
  mkdir -p "$root/build/logs"
  printf '%-34s ' "$name"
  start=$SECONDS
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ $status -eq 0 ]; then
    printf 'ok     %4d s\n' $((SECONDS - start))
  else
    printf 'FAILED %4d s (exit code %d)\n' $((SECONDS - start)) $status
    failed_steps+=("$name")
    # A function's name says little to who wants to repeat the step: its trace holds the commands themselves.
    printf '  command: %s\n' "$(printf '%q ' "$@")"
    printf '  the end of its output (all of it: %s):\n' "${log#"$root"/}"
    tail -n 60 "$log" | sed 's/^/  | /'
  fi
  return $status
}

# The same for a test runner, whose own closing line is shown too.
test_step() {
  local name=$1 status=0
  step "$@" || status=$?
  grep -hE '^[0-9]+% tests passed|^=+ .*(passed|failed|error|no tests ran).* =+$|^[0-9]+ passed, [0-9]+ failed' \
    "$root/build/logs/${name//[^A-Za-z0-9.+-]/_}.log" | tail -n 1 || true
  return $status
}

# What this machine cannot do is said, and in CI it is a failure: a check that is left out there is none.
skip() {
  printf '%-34s skipped: %s\n' "$1" "$2"
  skipped_steps+=("$1")
  if [ "${CI:-}" = true ]; then failed_steps+=("$1"); fi
}

joined() { printf '%s' "$1"; shift; if [ $# -gt 0 ]; then printf '; %s' "$@"; fi; }

# Ends the command: exit code 1 if a step failed.
finish() {
  local total=$SECONDS
  if [ ${#failed_steps[@]} -gt 0 ]; then
    printf 'failed after %d s: %s\n' "$total" "$(joined "${failed_steps[@]}")"
    exit 1
  fi
  printf 'all steps passed in %d s' "$total"
  if [ ${#skipped_steps[@]} -gt 0 ]; then
    printf '; left out: %s' "$(joined "${skipped_steps[@]}")"
  fi
  printf '\n'
}
