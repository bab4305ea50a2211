#!/usr/bin/env bash
# Checks a change in a few minutes: build, form, vet, lint of what changed, tests without the
# race detector, and the conformance corpus. It prints what it leaves out.
#
#   ./check-fast.sh            runs it
#   ./check-fast.sh --measure  writes the packages' times, which decide what is left out
set -euo pipefail
cd "$(dirname "$0")"
times=docs/testing-times.txt
longest=10 # seconds; packages with longer tests are left out
start=$SECONDS

# measure runs each package alone and records its time. A package without an end in two
# minutes is recorded with these.
if [[ ${1:-} == --measure ]]; then
  list=$(mktemp)
  trap 'rm -f "$list"' EXIT
  # What failed has its time too, and its name on the terminal.
  {
    echo "# Seconds that the tests of each package take: go test -short, one package after another."
    echo "# make testing-times writes this file; make check-fast leaves out what takes $longest s and more."
    go test -short -count=1 -p 1 -timeout 120s ./... |
      awk '$1 == "ok" {print $3 + 0, $2} $1 == "FAIL" && $3 ~ /s$/ {print $3 + 0, $2; print $2 " failed after " $3 >"/dev/stderr"}' |
      LC_ALL=C sort -k2
  } >"$list" || true
  mv "$list" "$times"
  chmod 644 "$times"
  exit
fi

step() { echo "== $*, after $((SECONDS - start)) s"; }

step build
CONSOLE=off VERSION=$(git describe --tags --always --dirty 2>/dev/null || echo dev) ./deploy/build.sh bin/isogloss

step form and vet
make --no-print-directory format
go vet ./...

# Changed are the commits since the branch left main, and what is not committed.
base=HEAD
for main in origin/main main; do
  base=$(git merge-base HEAD "$main" 2>/dev/null) && break || base=HEAD
done
step "lint of what changed since $(git rev-parse --short "$base")"
lint=$(command -v golangci-lint || echo "$(go env GOPATH)/bin/golangci-lint")
skipped=()
if [[ -x $lint ]]; then
  mapfile -t dirs < <({ git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } |
    grep '\.go$' | grep -v /testdata/ | xargs -r -n 1 dirname | sort -u)
  for module in . e2e deploy; do
    packages=()
    for dir in "${dirs[@]}"; do
      case $dir in
      e2e | e2e/*) [[ $module == e2e ]] && packages+=(".${dir#e2e}") ;;
      deploy | deploy/*) [[ $module == deploy ]] && packages+=(".${dir#deploy}") ;;
      *) [[ $module == . ]] && packages+=("./$dir") ;;
      esac
    done
    ((${#packages[@]})) || continue
    echo "golangci-lint in $module: ${packages[*]}"
    (cd "$module" && "$lint" run --config "$OLDPWD/.golangci.yml" "${packages[@]}")
  done
else
  skipped+=("lint: golangci-lint is not installed; make lint installs and runs it")
fi

step tests
packages=()
while read -r package; do
  seconds=$(awk -v p="$package" '$2 == p {print $1}' "$times")
  if awk -v s="${seconds:-0}" -v l=$longest 'BEGIN {exit !(s >= l)}'; then
    skipped+=("tests of ./${package#*/isogloss/}, which take $seconds s: go test ./${package#*/isogloss/}")
  else
    packages+=("$package")
    [[ $seconds ]] || echo "$package has no recorded time; make testing-times records it"
  fi
done < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
go test -short "${packages[@]}"

step conformance
bin/isogloss conform --direct | tail -n 1
bin/isogloss conform

step "passed; left out"
skipped+=(
  "tests that need minutes within the others (-short), and the race detector: make test-race PKGS=./FOLDER"
  "random conversations, growth, real clients, the console, failing upstreams and stores, attacks, benchmarks, packages: make check"
)
printf -- '- %s\n' "${skipped[@]}"
echo "docs/testing.md says which of these a change needs."
