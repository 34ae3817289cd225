"""``gangstart completion``: what a shell offers when Tab is pressed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gangstart import commandline
from gangstart.usage import Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gangstart.commandline import Verb

BASH = """\
# bash completion for gangstart: source <(gangstart completion bash)
_gangstart() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} verb='' words='' i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        [ "${{COMP_WORDS[i]}}" != -- ] || return 0
        case $verb/${{COMP_WORDS[i]}} in
        {paths}) verb=$verb/${{COMP_WORDS[i]}} ;;
        esac
    done
    case $verb:${{COMP_WORDS[COMP_CWORD - 1]}} in
{values}
    esac
    case $verb in
{words}
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}}
complete -o default -F _gangstart gangstart
"""
ZSH = """\
#compdef gangstart
# zsh completion for gangstart: source <(gangstart completion zsh)
_gangstart() {{
    local verb='' i
    local -a offered
    for ((i = 2; i < CURRENT; i++)); do
        [[ ${{words[i]}} != -- ]] || {{ _normal; return }}
        case $verb/${{words[i]}} in
        {paths}) verb=$verb/${{words[i]}} ;;
        esac
    done
    case $verb:${{words[CURRENT-1]}} in
{values}
    esac
    case $verb in
{words}
    esac
    _describe -V gangstart offered
    [[ ${{words[CURRENT]}} == -* ]] || _files
}}
if [[ ${{zsh_eval_context[-1]}} == loadautofunc ]]; then
    _gangstart "$@"
elif (( $+functions[compdef] )); then
    compdef _gangstart gangstart
fi
"""


def parser() -> Parser:
    """Build the command line of this verb."""
    made = Parser(
        prog="gangstart completion",
        description="Print the completion of this command for a shell: put it into the "
        "shell's folder of completions, or source it.",
    )
    made.add_argument("shell", choices=SHELLS, help="which one")
    return made


def main(argv: list[str]) -> int:
    """Print it."""
    sys.stdout.write(SHELLS[parser().parse_args(argv).shell]())
    return 0


def every() -> list[Verb]:
    """All verbs, with a first one for the command itself."""
    top = commandline.verbs()
    own = commandline.Option(("--help", "-h"), "", "show the list of verbs")
    version = commandline.Option(("--version", "-V"), "", "print the version")
    root = commandline.Verb((), "", (own, version), tuple(top))
    return list(root.all())


def path(words: Sequence[str]) -> str:
    """Return a verb as the scripts name it: /cluster/up."""
    return "".join(f"/{word}" for word in words)


def offers(verb: Verb) -> list[tuple[str, str]]:
    """Words that may come after a verb, each with its help."""
    found = [(one.words[-1], one.summary) for one in verb.verbs]
    for option in verb.options:
        found += [(name, option.help) for name in option.names]
        if not option.names:
            found += [(choice, option.help) for choice in option.choices]
    return found


def bash() -> str:
    """Return the script for bash."""
    values, words = [], []
    for verb in every():
        for names, choices, files in wanted(verb):
            place = "|".join(f"{path(verb.words)}:{name}" for name in names)
            act = "compopt -o filenames; " if files else ""
            what = "-f" if files else f"-W '{' '.join(choices)}'"
            values.append(
                f"    {place}) {act}mapfile -t COMPREPLY < "
                f'<(compgen {what} -- "$cur"); return 0 ;;'
            )
        listed = " ".join(word for word, _ in offers(verb))
        words.append(f"    {quoted(path(verb.words))}) words={quoted(listed)} ;;")
    return BASH.format(paths=paths(), values="\n".join(values), words="\n".join(words))


def zsh() -> str:
    """Return the script for zsh."""
    values, words = [], []
    for verb in every():
        for names, choices, files in wanted(verb):
            place = "|".join(f"{path(verb.words)}:{name}" for name in names)
            act = "_files" if files else f"compadd -- {' '.join(choices)}"
            values.append(f"    {place}) {act}; return ;;")
        rows = (":".join(pair) for pair in offers(verb))  # no word has a colon
        listed = " ".join(map(quoted, rows))
        words.append(f"    {quoted(path(verb.words))}) offered=({listed}) ;;")
    return ZSH.format(paths=paths(), values="\n".join(values), words="\n".join(words))


def wanted(verb: Verb) -> list[tuple[tuple[str, ...], tuple[str, ...], bool]]:
    """Options whose value can be offered: names, choices, whether it is a file."""
    return [
        (option.names, option.choices, option.wants_file)
        for option in verb.options
        if option.names and (option.choices or option.wants_file)
    ]


def paths() -> str:
    """Every verb as a pattern."""
    return "|".join(path(verb.words) for verb in every() if verb.words)


def quoted(text: str) -> str:
    """Return a text as one word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS: dict[str, Callable[[], str]] = {"bash": bash, "zsh": zsh}
