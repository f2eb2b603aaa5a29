CREATE DATABASE plant;

CREATE STABLE plant.boilers (ts TIMESTAMP, temperature DOUBLE) TAGS (hall VARCHAR(20));
CREATE TABLE plant.boiler1 USING plant.boilers TAGS ('north');
