#!/usr/bin/env bash
# Measures a pull request against its target branch, or a push against the commit before it, and
# writes the report for the comment and the job summary. It succeeds whatever the verdict is:
# judge.sh ends the job. Settings come from the environment: see action.yml.
set -euo pipefail

fail() {
	echo "::error::hone: $1" >&2
	exit 2
}

dir=$RUNNER_TEMP/hone
mkdir -p "$dir"
store=$dir/runs report=$dir/report.md page=$dir/history.html
key=${HONE_KEY:-bench}
[[ $key =~ ^[A-Za-z0-9._-]+$ ]] || fail "key: use letters, digits, dots and dashes only, not \"$key\""
[ -n "${HONE_FILE:-}${HONE_FLAGS:-}" ] || fail "give the input file, a scenario of hone bench, or flags with --cmd"

# The action is a folder of hone's repository, so hone is built from the commit that the workflow names.
hone=${HONE_PROGRAM:-}
if [ -z "$hone" ]; then
	hone=$dir/hone
	env -u GOFLAGS -u GOWORK -u GOTOOLCHAIN go -C "$GITHUB_ACTION_PATH/../.." build -o "$hone" ./tool/cmd/hone
fi

cd "$GITHUB_WORKSPACE"
if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
	git fetch --quiet --no-tags --unshallow origin || fail "the other revision is not here; check out with fetch-depth: 0"
fi
base=${HONE_BASE:-} name=${GITHUB_REF_NAME:-HEAD}
if [ -n "${GITHUB_BASE_REF:-}" ]; then
	branch=origin/$GITHUB_BASE_REF
	if [ -z "$base" ]; then
		# What the pull request has of the branch, which may have moved on since.
		has=$(git merge-base "$branch" HEAD) || fail "$branch is not here; check out with fetch-depth: 0"
		git update-ref "refs/remotes/$branch" "$has"
		base=$branch
	fi
	name="#${name%%/*}"
else
	branch=origin/$name name=origin/$name
	if [ -z "$base" ]; then
		base=${HONE_BEFORE:-}
		git rev-parse --quiet --verify "$base^{commit}" >/dev/null || base=HEAD^
	fi
fi

args=(--revision "$base" --save "$name" --store "$store" --md -o "$dir/verdict.md")
[ -z "${HONE_FILE:-}" ] || args+=(-f "$HONE_FILE")
while IFS= read -r flag; do
	[ -z "$flag" ] || args+=("$flag")
done <<<"${HONE_FLAGS:-}"

# The measured code gets none of the ways in which a step changes later ones.
rm -f "$dir/verdict.md"
code=0
env -u GITHUB_ENV -u GITHUB_PATH -u GITHUB_OUTPUT -u GITHUB_STATE -u GITHUB_STEP_SUMMARY -u ACTIONS_RUNTIME_TOKEN \
	-u ACTIONS_ID_TOKEN_REQUEST_TOKEN "$hone" bench "${args[@]}" 2>&1 | tee "$dir/said.txt" >&2 || code=${PIPESTATUS[0]}

case $code in
0) title='no figure is worse' ;;
3) title='a figure is worse' ;;
4) title='no clear result' ;;
*) title='could not measure' ;;
esac
{
	printf '<!-- hone: %s -->\n### hone bench: %s\n\n' "$key" "$title"
	if [ -s "$dir/verdict.md" ]; then
		head -c 40000 "$dir/verdict.md"
	else
		printf '```\n%s\n```\n' "$(tail -n 3 "$dir/said.txt" | tr -d '`' | tail -c 2000)"
	fi
	if "$hone" history "$branch" --store "$store" --md -o "$dir/history.md" &&
		"$hone" history "$branch" --store "$store" --html -o "$page"; then
		printf '\n<details><summary>History of %s</summary>\n\n' "${branch//[<>&]/}"
		head -c 20000 "$dir/history.md"
		printf '\n</details>\n'
	fi
	printf '\nExit code %s; commit %s against %s.\n' "$code" "$(git rev-parse HEAD)" "$(git rev-parse "$base" 2>/dev/null || echo "an unknown revision")"
} >"$report"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$report" >>"$GITHUB_STEP_SUMMARY"
[ -z "${GITHUB_OUTPUT:-}" ] || printf 'exit-code=%s\nreport=%s\nhistory=%s\n' "$code" "$report" "$page" >>"$GITHUB_OUTPUT"
