"""Whether gang start is installed right, here and on every node.

command ──▶ site     what Slurm and plugstack.conf say, by Slurm's commands
        ├─▶ ask      facts of this node and of others, by srun; greeter answers them
        ├─▶ judge_*  verdicts from all of that: pure
        └─▶ view     one table, one line of advice per finding
"""
