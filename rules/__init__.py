"""The rules, one folder each; a folder's README.md is its page. `graphlint.registry` finds them, there is no list."""
