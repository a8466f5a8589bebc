"""TPC-H query 12 as a pipeline that never stops for a crash: producer, exchange, Spark, exchange, consumer."""
