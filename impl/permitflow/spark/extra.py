"""Imported first by its package: is the extra there?"""

from permitflow.opening import require_extra

require_extra("spark", "pyspark", "pyarrow")
