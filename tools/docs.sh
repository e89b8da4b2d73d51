#!/usr/bin/env bash
# Makes one HTML site of the documents, in target/book, with the table of docs/README.md as its contents.
#
#   tools/docs.sh [MDBOOK]
#
# The pages keep their paths, so links between them work in the site as in the repository. Exit 1 if
# a link of the site leads nowhere.
set -euo pipefail
cd "$(dirname "$0")/.."

mdbook=${1:-mdbook}
source=target/book-src
rm -rf -- "$source" target/book
mkdir -p "$source"
# What pages link to and show.
git ls-files -z -- '*.md' LICENSE 'LICENSE-*' 'docs/*' 'lab/bench/*' 'lab/vm/tests/golden/*' |
	grep --null-data --invert-match '\.rs$' | xargs -0 cp --parents --target-directory="$source"

# The options of all commands are a page of the site only.
${WIRERATE:-cargo run --quiet --package wirerate --} man --options >"$source/docs/options.md"

# Rows of the table are "| question | [page](page) |"; a row may have several pages.
{
	printf '# Contents\n\n[wirerate](README.md)\n\n- [All commands and pages](docs/README.md)\n'
	perl -ne 'next unless /^\| (.*?) \| (\[.*) \|$/; my ($question, $pages) = ($1, $2);
		my @pages = grep { !/:/ } $pages =~ /\]\(([^)]+\.md)\)/g;
		s{^}{docs/}, s{^docs/\.\./}{} for @pages;
		print "- [", (@pages > 1 ? $_ : $question), "]($_)\n" for @pages' docs/README.md
	echo '- [Which options does each command have?](docs/options.md)'
} >"$source/SUMMARY.md"

"$mdbook" build
perl tools/dead-links.pl target/book
echo "open target/book/index.html"
