#!/usr/bin/env bash
# Checks every Markdown file: prose lines of at most 120 columns outside tables and code blocks, a README of at most 600
# words, at most 20 pages of results, and no link to a file or a heading of this repository that does not exist. Then
# tests/paths.py does the same for paths that are named without a link, also in comments.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
failed=0
complain() {
  echo "$1"
  failed=1
}

# The anchors of a file as GitHub makes them: lower case, without punctuation, hyphens for spaces.
anchors() {
  awk '/^```/ { code = !code } !code && /^#+ /' "$1" | sed -E 's/^#+ +//; s/`//g' | tr '[:upper:]' '[:lower:]' |
    sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

mapfile -t files < <(find . \( -name build -o -name runs -o -name shared -o -name venv -o -name '.?*' \) -prune -o -name '*.md' -print)
for file in "${files[@]}"; do
  while read -r line; do complain "$file:$line"; done < <(
    awk '/^```/ { code = !code } !code && !/^\|/ && length > 120 { print NR ": " length " columns of prose" }' "$file")
  while read -r target; do
    path=${target%%#*}
    [ -z "$path" ] && path=$file || path=$(dirname "$file")/$path
    if [ ! -e "$path" ]; then
      complain "$file: no file for the link $target"
    elif [[ $target = *#* ]] && ! anchors "$path" | grep -qxF -e "${target#*#}"; then
      complain "$file: no heading for the link $target"
    fi
  done < <(awk '/^```/ { code = !code } !code' "$file" | tr '\n' ' ' | grep -oE '\]\([^) ]+\)' | sed -E 's/^\]\(//; s/\)$//' |
    grep -vE '^[a-z]+:')
done

words=$(wc -w < README.md)
[ "$words" -le 600 ] || complain "README.md has $words words, more than 600"
pages=$(find docs/results -name '*.md' | wc -l)
[ "$pages" -le 20 ] || complain "docs/results has $pages pages, more than 20"
tests/paths.py || failed=1
exit $failed
