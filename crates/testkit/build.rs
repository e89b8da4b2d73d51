//! Puts the schemas of the JSON documents into the library: tests run where the repository is not,
//! such as in a virtual machine.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema");
    println!("cargo::rerun-if-changed={}", folder.display());
    let files = fs::read_dir(&folder).expect("the folder of the schemas is there");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("the folder is read").path()).collect();
    paths.sort();
    let mut code = String::from("[");
    for path in paths {
        println!("cargo::rerun-if-changed={}", path.display());
        write!(code, "include_str!({path:?}),").expect("a String takes any text");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("schemas.rs"), code + "]").expect("the folder can be written");
}
