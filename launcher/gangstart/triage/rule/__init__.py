"""The rules: each looks at the facts and names causes it sees."""
