-- The average temperature of each boiler in each minute. Late readings change it.
CREATE STREAM plant.averages FILL_HISTORY 1 IGNORE EXPIRED 0 INTO plant.boiler_1m AS
  SELECT _wstart AS ts, avg(temperature) AS temperature, count(*) AS readings
  FROM plant.boilers PARTITION BY tbname INTERVAL(1m);
