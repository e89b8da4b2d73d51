//! Maps of IP addresses: `--map-ip`, `--map-src-ip` and `--map-dst-ip`, in the order of the command
//! line, which decides among them.

use clap::{Arg, ArgAction, ArgMatches, Command};
use replay::{AddressMap, AddressRule, MapScope};

/// Option, its scope and its help.
const OPTIONS: [(&str, MapScope, &str); 3] = [
    (
        "map-ip",
        MapScope::Any,
        "Replace addresses of one prefix by those of another wherever they stand, such as \
         10.0.0.0/8=198.18.0.0/16",
    ),
    ("map-src-ip", MapScope::Source, "Replace source addresses only"),
    ("map-dst-ip", MapScope::Destination, "Replace destination addresses only"),
];

/// The maps with their texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRuleArgs(Vec<(String, AddressRule)>);

/// A map and its text.
type MapText = (String, AddressMap);

impl AddressRuleArgs {
    /// The maps.
    pub fn rules(&self) -> impl Iterator<Item = AddressRule> {
        self.0.iter().map(|(_, rule)| *rule)
    }

    /// The options as the user wrote them.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(text, _)| text.clone())
    }
}

impl clap::FromArgMatches for AddressRuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Vec::new();
        for (option, scope, _) in OPTIONS {
            let places = matches.indices_of(option).into_iter().flatten();
            let maps = matches.get_many::<MapText>(option).into_iter().flatten();
            found.extend(places.zip(maps).map(|(place, (text, map))| {
                (place, (format!("--{option} {text}"), AddressRule { scope, map: *map }))
            }));
        }
        found.sort_by_key(|(place, _)| *place);
        Ok(Self(found.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for AddressRuleArgs {
    fn augment_args(command: Command) -> Command {
        OPTIONS.iter().fold(command, |command, (option, _, help)| {
            command.arg(
                Arg::new(*option)
                    .long(*option)
                    .value_name("FROM=TO")
                    .help(*help)
                    .help_heading(super::HEADING)
                    .action(ArgAction::Append)
                    .value_parser(|text: &str| text.parse::<AddressMap>().map(|map| (text.to_owned(), map))),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::args_of;

    #[test]
    fn maps_keep_the_order_of_the_command_line() {
        let words = "--map-dst-ip 10.0.0.0/8=1.0.0.0/8 --map-ip 10.0.0.0/8=2.0.0.0/8 --map-src-ip ::1=::2 \
                     --map-ip 11.0.0.0/8=3.0.0.0/8";
        let args = args_of::<AddressRuleArgs>(words).unwrap();
        let scopes: Vec<MapScope> = args.rules().map(|rule| rule.scope).collect();
        assert_eq!(scopes, [MapScope::Destination, MapScope::Any, MapScope::Source, MapScope::Any]);
        assert_eq!(args.texts().last(), Some("--map-ip 11.0.0.0/8=3.0.0.0/8".to_owned()));
        assert!(args_of::<AddressRuleArgs>("--map-ip 10.0.0.0/8=fd00::/8").is_err());
    }
}
