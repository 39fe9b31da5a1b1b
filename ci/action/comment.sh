#!/usr/bin/env bash
# Puts the report into a comment of the pull request: the one of this key, if there is one, or else a
# new one. A token that may not comment is no failure, because the job summary has the report.
set -euo pipefail

[[ $HONE_PULL =~ ^[0-9]+$ ]] || { echo "::error::hone: not a pull request: \"$HONE_PULL\"" >&2; exit 2; }
[[ $GITHUB_REPOSITORY =~ ^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$ ]] || { echo "::error::hone: not a repository: \"$GITHUB_REPOSITORY\"" >&2; exit 2; }
[ -s "$HONE_REPORT" ] || { echo "hone: there is no report to comment" >&2; exit 0; }
api=${GITHUB_API_URL:-https://api.github.com}/repos/$GITHUB_REPOSITORY/issues
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# ask METHOD PATH [BODY] prints the status; the answer is in $answer. The token is in no argument,
# which other processes could read.
ask() {
	local body=()
	[ $# -lt 3 ] || body=(--data-binary "@-" -H 'Content-Type: application/json')
	curl --silent --show-error --max-time 30 --retry 2 -X "$1" -o "$answer" -w '%{http_code}' \
		--config <(printf 'header = "Authorization: Bearer %s"\n' "$GITHUB_TOKEN") \
		-H 'Accept: application/vnd.github+json' "${body[@]}" "$api/$2" <<<"${3:-}"
}

refused() {
	echo "::warning::hone: GitHub answers $1 to the comment; give the job the permission pull-requests: write. The report is in the job summary." >&2
	exit 0
}

# Only a bot's comment is ours: people may write the mark, too.
found=
for page in 1 2 3 4 5 6 7 8 9 10; do
	status=$(ask GET "$HONE_PULL/comments?per_page=100&page=$page")
	[ "$status" = 200 ] || refused "$status"
	found=$(jq -r --arg mark "<!-- hone: $HONE_KEY -->" '[.[] | select(.user.type == "Bot" and (.body | startswith($mark))) | .id][0] // empty' "$answer")
	[ -z "$found" ] && [ "$(jq length "$answer")" = 100 ] || break
done
body=$(jq -Rs '{body: .}' <"$HONE_REPORT")
if [ -n "$found" ]; then
	status=$(ask PATCH "comments/$found" "$body")
else
	status=$(ask POST "$HONE_PULL/comments" "$body")
fi
[[ $status =~ ^20[01]$ ]] || refused "$status"
echo "hone: comment: $(jq -r .html_url "$answer")"
