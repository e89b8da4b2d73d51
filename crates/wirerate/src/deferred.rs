//! Arguments of a command whose options the parser makes only when it looks at that command.
//!
//! All commands have more than a thousand options together, and to make them took 1.6 ms of each
//! start.

use clap::{ArgMatches, Command, Error, FromArgMatches, Id};
use std::ops::{Deref, DerefMut};

/// The arguments of one command.
#[derive(Debug)]
pub struct Deferred<A>(pub Box<A>);

impl<A: clap::Args> clap::Args for Deferred<A> {
    fn group_id() -> Option<Id> {
        A::group_id()
    }

    fn augment_args(command: Command) -> Command {
        command.defer(|command| {
            // What the list of commands says comes before what the arguments say of themselves.
            let (about, long_about) = (command.get_about().cloned(), command.get_long_about().cloned());
            let command = A::augment_args(command).about(about.unwrap_or_default());
            match long_about {
                Some(text) => command.long_about(text),
                None => command.long_about(None),
            }
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        A::augment_args_for_update(command)
    }
}

impl<A: FromArgMatches> FromArgMatches for Deferred<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        A::from_arg_matches(matches).map(Box::new).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        A::from_arg_matches_mut(matches).map(Box::new).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<A> Deref for Deferred<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

impl<A> DerefMut for Deferred<A> {
    fn deref_mut(&mut self) -> &mut A {
        &mut self.0
    }
}
