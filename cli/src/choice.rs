//! Words on the command line that stand for values of the runtime.

/// Declares the words of an option, each with its help. Each stands for the value of the same name.
macro_rules! choice {
    ($(#[$meta:meta])* $visible:vis enum $name:ident for $target:ty { $($(#[$help:meta])* $word:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
        $visible enum $name {
            $($(#[$help])* $word,)*
        }

        impl From<$name> for $target {
            fn from(word: $name) -> Self {
                match word {
                    $($name::$word => Self::$word,)*
                }
            }
        }
    };
}

pub(crate) use choice;
