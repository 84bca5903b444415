"""The menu of every group of a function; the bodies of its nodes are decided first."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgec.graph.ir import Function
from edgec.memory.bodies import LoweredBody, lower_bodies
from edgec.memory.choose import choose_alone
from edgec.memory.offload import share_out, stays_on_processor
from edgec.options import Options
from edgec.passes.copy_outputs import copy_outputs
from edgec.passes.copy_states import copy_states
from edgec.passes.fuse_groups import Group, fuse_groups
from edgec.passes.join_groups import join_groups
from edgec.passes.lower_groups import LoweredGroup, lower_group
from edgec.passes.open_groups import is_open, lower_open_group
from edgec.passes.tuned_variants import with_tuned
from edgec.targets.target import Target

Groups = tuple[LoweredGroup, ...]


def make_menus(function: Function, target: Target, options: Options) -> tuple[Function, Groups]:
    """The function, with copies where a state is read after it changed, and its groups' menus."""
    groups = _lower(function, target, options)
    copied = copy_states(function, groups)
    if copied is not function:
        groups = _lower(copied, target, options, groups)
    if target.core.has_gpu and not (target.only_loops or options.unfused):
        groups = join_groups(copied, groups, target)
    return copied, groups


def _lower(function: Function, target: Target, options: Options, known: Groups = ()) -> Groups:
    """The menu of every group. Groups with the same nodes as a known group take its menu."""
    if target.beside is not None:
        return _shared_out(function, target, target.beside, options)
    menus = {lowered.group.nodes: lowered for lowered in known}
    # A callee runs in its caller's thread. The user's functions are compared only with nests of
    # whole groups.
    called = replace(target, only_ours=True, only_loops=target.core.has_gpu)

    def menu(group: Group) -> LoweredGroup:
        if group.nodes[0].bodies:
            return lower_bodies(group, partial(_lower_body, target=called, options=options))
        if is_open(group):
            return lower_open_group(group, called)
        return with_tuned(lower_group(group, target), target)

    return tuple(
        menus.get(group.nodes) or menu(group)
        for group in fuse_groups(function, fuse=not options.unfused, is_whole=target.is_whole)
    )


def _shared_out(function: Function, target: Target, beside: Target, options: Options) -> Groups:
    """The menu of every group on the side of a GPU or of the processor, whichever runs it."""
    on_processor = _lower(function, beside, options)
    alone = replace(target, beside=None)
    groups = [lowered.group for lowered in on_processor]
    on_gpu = [
        None if stays_on_processor(group) else with_tuned(lower_group(group, alone), alone)
        for group in groups
    ]
    return share_out(function, on_gpu, on_processor, target)


def _lower_body(body: Function, target: Target, options: Options) -> LoweredBody:
    """A body of a node, as a function whose inputs and outputs are its caller's."""
    options = replace(options, io="caller")
    function, groups = make_menus(copy_outputs(body, options.io), target, options)
    return LoweredBody(function, groups, choose_alone(function, groups, target, options))
