#!/usr/bin/env bash
# Times whole commands of this build against another binary, as ratios within one run.
#
# Wall time on a shared machine says little, and differs by a third from one minute to the next. So
# both sides run in turn, the processor's time is taken (user and system), and the median of some
# runs of each is compared.
#
#   benches/compare.sh OTHER_BINARY [--runs N] [--ours BINARY] [--validate FILE] [--only PATTERN]
#   benches/compare.sh --commands FILE [--runs N] [--ours BINARY] [--only PATTERN]
#
#   OTHER_BINARY      an earlier build: given the same arguments as ours
#   --runs N          runs of each side and workload (default 5)
#   --ours BINARY     this build (default target/release/foretoken, or below CARGO_TARGET_DIR)
#   --validate FILE   time `validate FILE` as well: a file of measured experiments
#   --only PATTERN    only workloads whose name matches this pattern, as in `--only '1*'`
#   --commands FILE   workloads of one's own, for any other simulator: a line
#                     NAME<TAB>ARGUMENTS OF OURS<TAB>COMMAND OF THEIRS for each; `#` begins a comment
#
# It prints a table: workload, seconds of ours and of theirs, theirs over ours, and the peak of
# memory of both where GNU time is installed.
set -euo pipefail
export LC_ALL=C

usage() {
    sed -n '/^#   benches/,/^# memory/p' "$0" | sed 's/^# \{0,1\}//'
}

fail() {
    printf 'compare.sh: %s\n' "$1" >&2
    printf 'Try: benches/compare.sh --help\n' >&2
    exit 2
}

# --- arguments ---------------------------------------------------------------------------------

runs=5 other='' validate='' commands='' only='*'
root=$(cd "$(dirname "$0")/.." && pwd)
ours=${CARGO_TARGET_DIR:-$root/target}/release/foretoken

while (($#)); do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --runs | --ours | --validate | --commands | --only)
            (($# >= 2)) || fail "$1 needs a value"
            declare "${1#--}=$2"
            shift 2
            ;;
        -*) fail "unknown option $1" ;;
        *)
            [[ -z $other ]] || fail "one other binary is enough: $other and $1 were given"
            other=$1
            shift
            ;;
    esac
done

[[ $runs =~ ^[1-9][0-9]*$ ]] || fail "--runs is $runs: a whole number from 1 is needed"
[[ -x $ours ]] || fail "$ours is not there: cargo build --release -p foretoken-cli"
if [[ -n $commands ]]; then
    [[ -z $other ]] || fail "--commands names the other side itself: leave out $other"
    [[ -r $commands ]] || fail "$commands cannot be read"
elif [[ -z $other ]]; then
    fail 'the other binary is missing'
elif [[ ! -x $other || -d $other ]]; then
    fail "$other is not a program"
fi
[[ -z $validate || -r $validate ]] || fail "$validate cannot be read"

# --- one command -------------------------------------------------------------------------------

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

gnu_time=''
if /usr/bin/time -f '%M' true 2>/dev/null >&2; then
    gnu_time=/usr/bin/time
fi

# Runs a command and sets `seconds`, user and system together, and `kib`, its peak of memory or -.
measure() {
    local log=$scratch/log figures=$scratch/figures user system
    kib=-
    if [[ -n $gnu_time ]]; then
        "$gnu_time" -o "$figures" -f '%U %S %M' "$@" >/dev/null 2>"$log" || broken "$log" "$@"
        read -r user system kib <"$figures"
    else
        local TIMEFORMAT='%3U %3S'
        { time "$@" >/dev/null 2>"$log" || broken "$log" "$@"; } 2>"$figures"
        read -r user system <"$figures"
    fi
    seconds=$(awk -v user="$user" -v kernel="$system" 'BEGIN { printf "%.3f", user + kernel }')
}

broken() {
    local log=$1
    shift
    printf 'compare.sh: this failed: %s\n' "$*" >&2
    tail -n 5 "$log" >&2
    exit 1
}

# The median of numbers, one a line.
median() {
    sort -g | awk '{ all[NR] = $1 }
        END { print NR % 2 ? all[(NR + 1) / 2] : (all[NR / 2] + all[NR / 2 + 1]) / 2 }'
}

# Prints a row: a name, then the files with the commands of both sides, an argument a line.
compare() {
    local name=$1 run
    # shellcheck disable=SC2053 # A pattern is meant.
    [[ $name == $only ]] || return 0
    local -a a b
    mapfile -t a <"$2"
    mapfile -t b <"$3"
    rm -f "$scratch"/{ours,theirs}.{s,kib}
    for ((run = 0; run < runs; run++)); do
        # In turn, and each first half of the time: the second finds warmer caches.
        if ((run % 2)); then
            side theirs "${b[@]}"
            side ours "${a[@]}"
        else
            side ours "${a[@]}"
            side theirs "${b[@]}"
        fi
    done
    local mine theirs
    mine=$(median <"$scratch/ours.s") theirs=$(median <"$scratch/theirs.s")
    awk -v name="$name" -v a="$mine" -v b="$theirs" \
        -v ka="$(median <"$scratch/ours.kib")" -v kb="$(median <"$scratch/theirs.kib")" '
        function mib(k) { return k == "-" || k == "" ? "-" : sprintf("%.0f", k / 1024) }
        BEGIN {
            ratio = a > 0 ? sprintf("%.2f", b / a) : "-"
            printf "%-28s %9.3f %9.3f %7s %9s %10s\n", name, a, b, ratio, mib(ka), mib(kb)
        }'
}

# Runs one side once, and notes what it took.
side() {
    local who=$1
    shift
    measure "$@"
    printf '%s\n' "$seconds" >>"$scratch/$who.s"
    printf '%s\n' "$kib" >>"$scratch/$who.kib"
}

# --- workloads ---------------------------------------------------------------------------------

# Code generation with Llama-3.1-70B on four H100 for each instance, lengths as in measured runs.
scenario() {
    local requests=$1 instances=$2
    cat <<YAML
deployment:
  model: meta-llama/Llama-3.1-70B-Instruct
  gpu: H100-SXM-80GB
  tensor-parallel: 4
  replicas: $instances
  engine: { max-model-len: 4096, max-num-seqs: 128, max-num-batched-tokens: 2048 }
workload:
  synthetic:
    arrivals: { poisson: { rate-rps: $((5 * instances)) } }
    requests: $requests
    prompt-tokens: { lognormal: { mean: 590, std: 200, max: 3000 } }
    output-tokens: { lognormal: { mean: 247, std: 100, max: 1000 } }
seed: 1
YAML
}

# Compares both binaries with the same arguments.
same() {
    local name=$1
    shift
    printf '%s\n' "$ours" "$@" >"$scratch/a"
    printf '%s\n' "$other" "$@" >"$scratch/b"
    compare "$name" "$scratch/a" "$scratch/b"
}

# Runs a scenario of so many requests on so many instances.
serve() {
    local file=$scratch/$2-$3.yaml
    scenario "$2" "$3" >"$file"
    same "$1" run "$file"
}

printf '%-28s %9s %9s %7s %9s %10s\n' workload 'ours s' 'theirs s' ratio 'ours MiB' 'theirs MiB'

if [[ -n $commands ]]; then
    number=0
    while IFS=$'\t' read -r name mine theirs rest || [[ -n $name ]]; do
        number=$((number + 1))
        [[ -n $name && $name != '#'* ]] || continue
        [[ -n $theirs && -z $rest ]] ||
            fail "$commands, line $number: a name, our arguments and their command are needed, a tab between"
        read -r -a words <<<"$mine"
        printf '%s\n' "$ours" "${words[@]}" >"$scratch/a"
        # Theirs may be a pipe or set variables: a shell reads it.
        printf '%s\n' bash -c "$theirs" >"$scratch/b"
        compare "$name" "$scratch/a" "$scratch/b"
    done <"$commands"
    exit 0
fi

serve '1 instance, 10k requests' 10000 1
serve '1 instance, 100k requests' 100000 1
serve '16 instances, 50k requests' 50000 16
serve '100 instances, 100k requests' 100000 100
[[ -z $validate ]] || same 'validate' validate "$validate"
