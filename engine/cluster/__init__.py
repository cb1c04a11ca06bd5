"""A cluster: machines that train one run together. Ray connects them, one Ray node per machine.

Ray is an optional package. Only functions of this package import it, when they are called.
"""
