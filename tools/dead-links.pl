#!/usr/bin/perl
# Checks the HTML files below the named folder: each link and picture leads to a file of the site, and
# each anchor to an element. Links to other hosts are not followed.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Find qw(find);

my $root = shift or die "dead-links.pl: which folder?\n";
my (%text, $failed, $checked);
find({ no_chdir => 1, wanted => sub { $text{$_} = read_file($_) if /\.html$/ } }, $root);

sub read_file {
	my ($path) = @_;
	open my $file, '<', $path or die "dead-links.pl: $path: $!\n";
	local $/;
	return scalar <$file>;
}

for my $page (sort keys %text) {
	# The page for addresses that do not exist is served at any of them.
	next if $page =~ m{/404\.html$};
	for my $link ($text{$page} =~ /\s(?:href|src|srcset)="([^"]+)"/g) {
		next if $link =~ /^(?:[a-z]+:|\/\/)/;
		my ($path, $anchor) = split /#/, $link, 2;
		my $target = $path eq '' ? $page : dirname($page) . "/$path";
		1 while $target =~ s{/[^/.]+/\.\./}{/};
		$target .= 'index.html' if $target =~ m{/$};
		my $is_there = -e $target;
		$is_there &&= !defined $anchor || $anchor eq '' || $text{$target} && $text{$target} =~ /\sid="\Q$anchor\E"/;
		print "$page: $link leads nowhere\n" and $failed = 1 unless $is_there;
		$checked++;
	}
}
print "$checked links of the site lead somewhere\n" unless $failed;
exit($failed ? 1 : 0);
