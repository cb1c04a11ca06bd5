"""Whether the Python of a run, Traindeck's own or another, can train its recipe. Reads files."""

from __future__ import annotations

from pathlib import Path

from engine.environments import needs, registry
from engine.environments.activation import environment_folder
from engine.environments.gpu_builds import has_system_cuda, tensorflow_problem, tensorflow_remedy
from engine.environments.installed import installed_for
from engine.environments.needs import package_of, recipe_problem
from engine.spec.device_names import all_on_cpu
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import changed_packages, stored_environment
from engine.spec.strategy import Strategy
from engine.spec.validation import Problem
from engine.telemetry.gpu_makers import GpuMaker, gpu_maker


def interpreter_problems(spec: RunSpec, recipe: RecipeInfo, strategy: Strategy) -> list[Problem]:
    """Return why the Python of `spec` cannot train `recipe`, each as a sentence with the remedy."""
    if spec.is_script or recipe.is_script:
        return []
    framework = package_of(strategy.framework)
    text = ""
    if spec.interpreter:
        keras = recipe.framework == "keras" and framework != "tensorflow"
        text = recipe_problem(spec.interpreter, framework, keras=keras, builtin=recipe.builtin)
    if not text and framework == "tensorflow" and spec.devices and not all_on_cpu(spec.devices):
        text = tensorflow_gpu_problem(spec.interpreter, gpu_maker(spec.devices[0]))
    return [Problem("interpreter", text)] if text else []


def tensorflow_gpu_problem(interpreter: str, maker: GpuMaker = "NVIDIA") -> str:
    """Return why TensorFlow sees no GPU of a maker there, in a sentence; empty: it may see them.

    `interpreter`: the path of a Python; empty: Traindeck's own.
    """
    installed = installed_for(interpreter)
    problem = tensorflow_problem(
        installed, has_system_cuda=has_system_cuda(installed, interpreter), maker=maker
    )
    if not problem:
        return ""
    where = str(environment_folder(Path(interpreter))) if interpreter else "Traindeck's own Python"
    remedy = tensorflow_remedy() if maker == "NVIDIA" else "Use a PyTorch strategy."
    return f"{problem} That is the one in {where}. {remedy} Or choose CPU devices."


def environment_notices(folder: Path, spec: RunSpec, framework: str, attempt: int) -> list[str]:
    """Return what a person should know of the versions that attempt number `attempt` trains a
    recipe with: sentences.

    `framework`: that of the strategy. Reads files.
    """
    found = []
    if spec.interpreter:
        where = environment_folder(Path(spec.interpreter))
        untested = needs.untested(installed_for(spec.interpreter), [package_of(framework)])
        found = [f"The run uses the environment {where}. {text}" for text in untested]
    changed = changed_packages(folder, spec, attempt) if attempt > 1 else []
    if changed:
        found.append(
            f"This attempt trains with other versions than the one before: {', '.join(changed)}. "
            "What follows may differ from a run that was never interrupted."
        )
    return found


def python_of_run(folder: Path, interpreter: str) -> str:
    """Return the Python of the run in `folder`: the name of its environment, its path, and the
    versions of its newest start; empty if it is Traindeck's own.

    `interpreter`: that of its spec.
    """
    if not interpreter:
        return ""
    try:
        name = registry.name_of(interpreter)
    except OSError:  # `env list` says why
        name = ""
    stored = stored_environment(folder)
    packages = {"Python": stored.get("python", ""), **stored.get("packages", {})}
    versions = ", ".join(f"{package} {version}" for package, version in packages.items() if version)
    text = f"{name}: {interpreter}" if name else interpreter
    return f"{text} ({versions})" if versions else text
