"""Each rule's rewrite as a LibCST codemod, for projects that run their codemods with LibCST's own tool.

    python -m libcst.tool codemod -x graphlint.codemod_command.Command --no-format --rule NAME PATH...

LibCST hands over one file at a time. A file's rewrite rests on the whole project all the same, and passes the same
checks as with `graphlint fix`. A fix that changes other files too is left to that command, which changes all of them or
none.
"""

from __future__ import annotations

import argparse
import functools

import libcst as cst
from libcst.codemod import CodemodCommand, CodemodContext, SkipFile

from graphlint import check, config, files, fixing, registry
from graphlint.config import Settings


class Command(CodemodCommand):
    """Applies the fixes of some rules to a module."""

    DESCRIPTION = "Rewrite CUDA-graph memory-lifetime hazards, as `graphlint fix` does."

    @staticmethod
    def add_args(arg_parser: argparse.ArgumentParser) -> None:
        """The arguments of `graphlint fix` that matter here."""
        arg_parser.add_argument(
            "--rule",
            dest="rules",
            metavar="NAME",
            action="append",
            required=True,
            type=_rule_name,
            help="rule whose findings are fixed; may be given several times",
        )
        arg_parser.add_argument(
            "--unsafe-fixes",
            dest="unsafe",
            action="store_true",
            help="apply fixes too that are right only under the conditions that they state",
        )

    def __init__(self, context: CodemodContext, rules: list[str], *, unsafe: bool = False) -> None:
        super().__init__(context)
        self.rules = tuple(rules)
        self.unsafe = unsafe

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The module after the fixes.

        Raises:
            SkipFile: the module has no file, so nothing tells which project it belongs to.
        """
        if self.context.filename is None:
            raise SkipFile("a module without a file belongs to no project")
        path = files.shown(self.context.filename)
        file = config.find([path])
        settings = _settings(file)
        if path not in _paths_with_findings(files.project_files([path], settings).context, self.rules, file):
            return tree
        rules = registry.select(self.rules)
        outcome = fixing.fix(check.read([path], settings, {path: tree.bytes}), rules, unsafe=self.unsafe)
        for applied in outcome.applied:
            for condition in applied.finding.fix.conditions if applied.finding.fix is not None else ():
                self.warn(f"{path}:{applied.row}: {applied.finding.rule}: {condition}")
        for refusal in outcome.refused:
            self.warn(f"{path}:{refusal.row}: {refusal.finding.rule} is not fixed: {refusal.reason}")
        if path not in outcome.changes:
            return tree
        return cst.parse_module(outcome.changes[path].after)


def _rule_name(name: str) -> str:
    try:
        return registry.by_name(name).name
    except registry.UnknownRuleError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _settings(file: str | None) -> Settings:
    return Settings() if file is None else config.load(file)


@functools.cache
def _paths_with_findings(paths: tuple[str, ...], rules: tuple[str, ...], file: str | None) -> frozenset[str]:
    """The files of a project that have findings; a run asks once for each process, not once for each file."""
    report = check.check(paths, _settings(file), registry.select(rules))
    return frozenset(finding.path for finding in report.findings)
