"""The walks that `walks.py` measures, with their goals and contracts."""

from tools.reading import Walk

CONSOLIDATION = """
memory/crystal/memory.py::CrystalMemory.consolidate
  memory/crystal/memory.py::CrystalMemory.snapshot
    memory/crystal/memory.py::CrystalMemory._all_due
    memory/crystal/memory.py::CrystalMemory._shared
    memory/crystal/snapshot.py::take_snapshot
      memory/crystal/snapshot.py::widths
      memory/crystal/snapshot.py::Columns
      memory/crystal/snapshot.py::chosen_slots
  memory/crystal/consolidate.py::plan
    memory/crystal/consolidate.py::Stages
    memory/crystal/consolidate.py::_utility
      memory/crystal/consolidate.py::_random_near
      memory/crystal/consolidate.py::scaled_error
      memory/crystal/consolidate.py::_mean_over
    memory/crystal/consolidate.py::_interference
      memory/crystal/consolidate.py::back_up
    memory/crystal/consolidate.py::_drift
    memory/crystal/consolidate.py::_crystallize
      memory/crystal/consolidate.py::_rates
      memory/crystal/consolidate.py::_settled
      memory/crystal/consolidate.py::_step
    memory/crystal/consolidate.py::_practised
    memory/crystal/consolidate.py::_follow
      memory/crystal/consolidate.py::_like
    memory/crystal/consolidate.py::_uniform
    memory/crystal/phases.py::move
      memory/crystal/phases.py::_refuse_beyond_room
      memory/crystal/phases.py::_count_moves
      memory/crystal/phases.py::_evict_contradicted
      memory/crystal/phases.py::_evict_beyond_capacity
        memory/crystal/phases.py::Moves
        memory/crystal/phases.py::_by_age
        memory/crystal/phases.py::_rank
    memory/crystal/consolidate.py::_policy_unit
  memory/crystal/memory.py::CrystalMemory.apply
"""
CONSOLIDATION_CONTRACTS = """
# the critic, in chunks, its answers checked; visits to cells; the ledger; targets of anchors; the report
memory/crystal/anchors.py
memory/crystal/evaluate.py::evaluate_all
memory/crystal/novelty.py
memory/crystal/ledger.py
memory/crystal/report.py
# what a consolidation sees of a memory
memory/neighbours/view.py
# k nearest neighbours from all pairs
memory/neighbours/exact.py
"""

WALKS: dict[str, Walk] = {
    "one gradient step": Walk(
        3,
        200,
        """
study/run.py::run
  study/run.py::interact
    study/run.py::Trainer.launch
      study/run.py::Trainer.collect
        study/run.py::Trainer._step_world
      study/run.py::Trainer._learn
        agents/dqn.py::DQN.update
          agents/dqn.py::ValueAgent.update
            agents/dqn.py::DQN.loss
              agents/dqn.py::DQN._td_errors
                agents/dqn.py::DQN.values
                agents/dqn.py::DQN.td_target
              losses.py::weighted_mean
              losses.py::huber
              losses.py::advantages
              losses.py::anchor_losses
                losses.py::anchor_loss
                  losses.py::squared_error
              losses.py::with_penalty
    study/run.py::Trainer.complete
      study/run.py::Trainer._store_captured
""",
        concrete="agents/dqn.py::DQN",
        contracts="""
# what else happens between two gradient steps
study/run.py::Trainer.__init__
study/run.py::Trainer.begin
study/run.py::Trainer.end
study/run.py::Trainer.incidents
study/run.py::scored
study/contents.py::contents
study/run.py::without_failed
study/run.py::Trainer.score_current
study/plan.py::Group
# when updates and points of the learning curve are due
study/schedule.py
# values normalised per task, an option
agents/pop_art.py
study/cuda_graph.py::Captured
agents/dqn.py::DQN.evaluate
agents/base.py::require_tensor
agents/base.py::Agent.edited
methods/base.py::Method
""",
    ),
    "add, sample, update": Walk(
        4,
        420,
        """
memory/crystal/memory.py::CrystalMemory.add
  memory/base.py::ReplayMemory._add
    memory/base.py::ReplayMemory._make_room
    memory/base.py::ReplayMemory._add_rows
      memory/base.py::ReplayMemory._store_closed
        memory/base.py::ReplayMemory._store
          memory/crystal/ledger.py::CrystalLedger.allocate
            memory/crystal/ledger.py::CrystalLedger.reserve
              memory/crystal/ledger.py::CrystalLedger.rebuild_queue
                memory/crystal/ledger.py::CrystalLedger.phase
          memory/crystal/ledger.py::CrystalLedger.commit
            memory/crystal/ledger.py::CrystalLedger.refresh_strata
    memory/crystal/ledger.py::CrystalLedger.admit
      memory/crystal/ledger.py::CrystalLedger._entry
    memory/base.py::ReplayMemory._put
memory/base.py::ReplayMemory.sample
  memory/base.py::ReplayMemory._refuse_size
  memory/storage/batches.py::gather_batch
    memory/storage/batches.py::_delivered
    memory/storage/batches.py::_send
memory/base.py::ReplayMemory.update
""",
        concrete="memory/crystal/memory.py::CrystalMemory",
        contracts="""
# the targets of anchors; the returns of episodes; which slots may be overwritten
memory/crystal/anchors.py::Anchors
memory/crystal/episode_boost.py::Episodes
memory/crystal/write_order.py
# the input, checked
memory/crystal/inputs.py
memory/updates.py
""",
    ),
    "consolidation": Walk(
        4,
        500,
        CONSOLIDATION,
        concrete="memory/crystal/memory.py::CrystalMemory",
        contracts=f"{CONSOLIDATION_CONTRACTS}memory/neighbours/neighbourhood.py::Neighbours",
    ),
    "consolidation with kept lists": Walk(
        6,
        700,
        f"""{CONSOLIDATION}
  memory/neighbours/neighbourhood.py::Neighbours.refresh
    memory/neighbours/neighbourhood.py::Neighbours._with_lists
    memory/neighbours/neighbourhood.py::Neighbours._found
      memory/neighbours/neighbourhood.py::Neighbours.empty_graph
        memory/neighbours/graph.py::NeighbourGraph.__init__
          memory/neighbours/graph.py::NeighbourGraph._empty_index
          memory/neighbours/graph.py::NeighbourGraph._empty_lists
      memory/neighbours/graph.py::NeighbourGraph.refresh
        memory/neighbours/graph.py::NeighbourGraph._drop
          memory/neighbours/graph.py::NeighbourGraph._lists
        memory/neighbours/graph.py::NeighbourGraph._update
          memory/neighbours/graph.py::NeighbourGraph._to_renew
          memory/neighbours/graph.py::NeighbourGraph._with_beyond
          memory/neighbours/graph.py::NeighbourGraph._update_index
          memory/neighbours/graph.py::NeighbourGraph._offer_adjacent
            memory/neighbours/graph.py::NeighbourGraph._offer
          memory/neighbours/graph.py::NeighbourGraph._refine
          memory/neighbours/graph.py::NeighbourGraph._query
          memory/neighbours/graph.py::NeighbourGraph._insert
            memory/neighbours/graph.py::NeighbourGraph._farthest
            memory/neighbours/graph.py::NeighbourGraph._offer_grouped
            memory/neighbours/graph.py::NeighbourGraph._insert_similar
              memory/neighbours/graph.py::NeighbourGraph._similarity
""",
        concrete="memory/crystal/memory.py::CrystalMemory",
        contracts=f"""{CONSOLIDATION_CONTRACTS}
# all pairs, where they are few; scales of distances and rewards; which rewards contradict
memory/neighbours/all_pairs.py
memory/neighbours/epsilon.py
memory/neighbours/contradiction.py
# the index; lists and how they improve; vectors of states; order of the steps
memory/neighbours/index.py
memory/neighbours/lists.py
memory/neighbours/refine.py
memory/neighbours/states.py
memory/neighbours/features.py
memory/neighbours/steps.py
memory/neighbours/similar.py
""",
    ),
    "SB3 buffer and callback": Walk(
        5,
        500,
        """
integrations/sb3/callback.py::Consolidate
  integrations/sb3/buffers.py::CrystalReplayBuffer
    integrations/sb3/buffers.py::MemoryReplayBuffer
      integrations/sb3/contents.py::normalised
      integrations/sb3/hooks.py::Hooks
        integrations/sb3/hooks.py::hooks_of
        integrations/sb3/hooks.py::_clamped_pull
    integrations/_common.py::consolidate
""",
        concrete="integrations/sb3/buffers.py::CrystalReplayBuffer",
        contracts="""
# what is different between SB3's algorithms; what cannot be done is refused
integrations/sb3/adapters.py
integrations/sb3/checks.py
# what is stored, in the shapes that SB3 uses
integrations/sb3/contents.py
# anchor losses and their gradients, documented in the reference
integrations/anchors.py
# the memory
memory/
""",
    ),
    "command line to learner": Walk(
        8,
        500,
        """
cli/commands.py::run_command
  cli/commands.py::_dispatch
    cli/commands.py::_searches
    cli/commands.py::_own_tasks
    study/registry.py::check
      study/registry.py::check_suite
      study/registry.py::kinds_of
      study/registry.py::_check_boundaries
        study/registry.py::has_boundaries
      study/registry.py::_check_settings
    cli/training.py::run_tables
      cli/training.py::continued_by
      cli/training.py::resume_command
      cli/training.py::_stores
      cli/training.py::_end_if_failed
      study/definition.py::Table.runs
        study/definition.py::Table._seeds
          study/definition.py::Table.tuned
      study/plan.py::plan
        study/plan.py::_lanes
          study/plan.py::stage_order
            study/plan.py::stage_tasks
        study/plan.py::stage_steps
        study/plan.py::_structure
        study/plan.py::_parts
        study/plan.py::_group
          study/plan.py::_values
            study/plan.py::_column
      cli/training.py::_train
        study/execution.py::Execution.events
          study/execution.py::check_device
          study/execution.py::prepare
          study/execution.py::execute
            study/execution.py::pending
            study/execution.py::_run
              study/run.py::Trainer.__init__
                study/build.py::make_suite
                  study/build.py::_sequence
                study/build.py::make_agent
                study/build.py::make_memory
                study/build.py::make_method
              study/execution.py::recorded
    cli/commands.py::_list
      cli/commands.py::_about
    cli/commands.py::_demo
""",
        contracts="""
# specs and studies as data; stored results
study/spec.py
study/definition.py
study/task_files.py
study/budget.py
study/store.py
study/checkpoints.py
study/recorder.py
study/metrics.py
study/loggers.py
# the words of the command line; other commands; the display
cli/parsing.py
cli/terminal.py
cli/progress.py
cli/pages.py
cli/inspection.py
cli/check_tasks.py
cli/doctor.py
study/tuning.py
study/registry.py::presets
study/execution.py::best_device
study/execution.py::finish
study/execution.py::execute_ray
# what is built
study/episodes.py::EpisodeReturns
study/run.py::Trainer
study/run.py::run
study/kinds.py
study/cuda_graph.py
suites/
""",
    ),
}
