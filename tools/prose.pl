#!/usr/bin/perl -CSD
# Checks the named files: comments of *.rs, *.c and *.h, and the text of *.md outside tables and
# code blocks, have at most 100 columns; no line has one of the words below.
use strict;
use warnings;

my $words = qr/\b(rooms?|wish(?:es)?|nobody|somebody|whoever|rung|patience|sealed)\b/i;
my ($is_code, $failed) = (0, 0);
while (<>) {
	chomp;
	$is_code = !$is_code if /^\s*(\/\/[\/!]\s*)?```/;
	my $is_prose = $ARGV =~ /\.md$/ ? !/^(#|\||    )/ : /^\s*(\/\/|\/\*|\* )/ && !/^\s*\/\/[\/!] \|/;
	# A long word (a URL) cannot be wrapped.
	if ($is_prose && !$is_code && length > 100 && /^.{0,100}\S\s+\S/) {
		print "$ARGV:$.: " . length($_) . " columns\n";
		$failed = 1;
	}
	# There is a user of that name.
	if (s/(`|user )nobody//r =~ $words) {
		print "$ARGV:$.: \"$1\" is not a word of the field\n";
		$failed = 1;
	}
} continue {
	if (eof) {
		close ARGV;
		$is_code = 0;
	}
}
exit $failed;
