"""Trains small models with XGBoost, LightGBM and CatBoost, in all the ways that they offer.

With a number as argument, the library of that number trains alone, and for that long.
"""

import sys

import catboost
import lightgbm
import numpy
import xgboost

random = numpy.random.default_rng(0)
inputs = random.normal(size=(400, 5))
targets = (inputs[:, 0] + random.normal(size=400) > 0).astype(int)
first, second = (inputs[:300], targets[:300]), (inputs[300:], targets[300:])
tree = {"objective": "binary:logistic", "eval_metric": "auc", "nthread": 1}
leaves = {"objective": "binary", "metric": "auc", "num_threads": 1, "verbosity": -1}
forest = {"eval_metric": "AUC", "thread_count": 1, "allow_writing_files": False, "verbose": False}


def xgboost_trains(rounds):
    train, test = xgboost.DMatrix(*first), xgboost.DMatrix(*second)
    model = xgboost.train(tree, train, rounds, evals=[(test, "eval")], verbose_eval=False)
    return model.num_boosted_rounds(), model.predict(test)


def lightgbm_trains(rounds):
    train = lightgbm.Dataset(*first)
    model = lightgbm.train(leaves, train, rounds, [train.create_valid(*second)])
    return model.current_iteration(), model.predict(second[0])


def catboost_trains(rounds):
    model = catboost.CatBoostClassifier(iterations=rounds, use_best_model=False, **forest)
    model.fit(*first, eval_set=second)
    return model.tree_count_, model.predict_proba(second[0])[:, 1]


trains = {"xgboost": xgboost_trains, "lightgbm": lightgbm_trains, "catboost": catboost_trains}
if len(sys.argv) > 1:
    print(trains[sys.argv[1]](2000)[0])
    sys.exit()
for each in trains.values():
    print(each(10)[1].tolist())

# Steps 31 and on: cross-validation, models for scikit-learn, and loops of the script's own.
xgboost.cv(tree, xgboost.DMatrix(*first), 4, nfold=2)
lightgbm.cv(leaves, lightgbm.Dataset(*first), 4, nfold=2)
xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(*first, eval_set=[second], verbose=False)
lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbosity=-1).fit(*first)
catboost.CatBoostRegressor(iterations=3, thread_count=1, allow_writing_files=False, verbose=0).fit(
    *first
)
data, others = xgboost.DMatrix(*first), xgboost.DMatrix(*second)
booster = xgboost.Booster(tree, [data])
for number in range(5):
    booster.update(data, number)
    booster.eval_set([(others, "test")], number)
data = lightgbm.Dataset(*first)
grown = lightgbm.Booster(leaves, data)
grown.add_valid(data.create_valid(*second), "test")
for _ in range(5):
    grown.update()
    grown.eval_valid()
