//! The files of the web page. They need no other files and no network.

/// Path, media type and text of each file. `/` is the page itself.
pub const PAGE_FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("../page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("../page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("../page/page.js")),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The security policy of the server allows neither inline scripts nor inline styles.
    #[test]
    fn files_name_each_other_and_no_other_host() {
        let [(_, _, page), ..] = PAGE_FILES;
        for (path, _, text) in PAGE_FILES {
            assert!(path == "/" || page.contains(&path[1..]), "{path}");
            for (before, _) in text.match_indices("//").map(|(at, _)| text.split_at(at)) {
                // The namespace of SVG is a name, not an address.
                assert!(!before.ends_with(':') || before.ends_with("http:"), "{path}: {before}");
            }
            let addresses = text.matches("http").count();
            assert_eq!(addresses, text.matches("http://www.w3.org/2000/svg").count(), "{path}");
        }
        assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" onclick"));
    }
}
