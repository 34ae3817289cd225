"""Lines of any program: its own errors, its end, compilation storms."""

from gangstart.triage.table.row import Row

GENERAL = (
    Row(
        "completed",
        ("raining", "Trainer.fit", "train_runtime", "ax_steps", "raining_done"),
        r"(?i)training (?:is )?(?:complete[d]?|finished|done|ended|over)\b|"
        r"(?:finished|completed|done)(?: with)? training|`?Trainer\.fit`? stopped: "
        r"`?max_|train_runtime|reached max_steps",
        "INFO | training complete: 100000 steps",
    ),
    Row(
        "early_end",
        ("exhausted", "leaving loop", "early", "StopIteration", "no more "),
        r"(?i)rank (?P<rank>\d+)\b.*(?:exhausted|leaving|early|no more (?:data|"
        r"samples|batches)|finished)",
        "INFO | rank 7: shard exhausted, leaving loop early",
    ),
    Row(
        "recompile",
        (
            "recompile_limit",
            "cache_size_limit",
            "slow_operation_alarm",
            "Involuntary full rematerialization",
            "Very slow compile",
            "Recompiling function",
        ),
        r"recompile_limit|cache_size_limit|slow_operation_alarm|Involuntary full "
        r"remat\w*|Very slow compile|Recompiling function",
        "torch._dynamo hit config.recompile_limit (8)",
    ),
    Row(
        "app_error",
        (
            *("ERROR", "CRITICAL", "FATAL", "atal:", "rror:", "panic:", "abort"),
            *("MPI_ERR_", "Fatal error in ", "panicked at "),
        ),
        r"(?:\b(?:ERROR|CRITICAL|FATAL)\b|\bMPI_ERR_(?=\w+: )|Fatal error in (?=P?MPI_)"
        r"|panicked at |^(?:\S+: )?(?:[Ee]rror|[Ff]atal|panic): )\W*"
        r"(?:rank[ :=]*(?P<rank>\d+)\W+)?(?P<why>.*)",
        "ERROR | rank 3: unknown option 'optim.lrr' in override",
    ),
)
