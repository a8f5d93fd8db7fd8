#!/usr/bin/env bash
# Asks a question of the documents here, asks it again, changes a document, and asks once more.
# Everything is in a temporary directory; the embedded model answers.
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r documents "$work/documents"
question=${1:-How many days does a refund take?}

say() { printf '\n## %s\n\n' "$*"; }
sync() { stepwell docs sync "$work/documents" --collection lanterns --data "$work/data"; }
ask() { stepwell rag ask "$question" --collection lanterns --top 2 --data "$work/data"; }

say "The documents are cut and embedded"
sync
say "$question"
ask
say "The same question again"
ask
say "The warranty changes: the question is searched again, and has the same answer"
sed -i 's/three years/four years/' "$work/documents/warranty.md"
sync
ask
say "Refunds take nine days now: another passage, so another answer"
sed -i 's/five days/nine days/; s/五天/九天/' "$work/documents/refunds.md" "$work/documents/退款.md"
sync
ask
