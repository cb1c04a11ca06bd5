"""Sweeps: many runs of one recipe that differ in some settings, chosen by Optuna.

A sweep is a folder in the data folder; its runs are ordinary runs with its tag. A process of its
own, the driver, starts them and looks at them.
"""
