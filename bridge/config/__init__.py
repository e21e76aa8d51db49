"""From YAML text to frozen structs: strict, with every problem at once, each with its place. Connects to nothing."""
