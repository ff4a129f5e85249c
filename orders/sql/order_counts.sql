-- The number of orders by status group, status and method, as rows of changes (orders_ordercount): the
-- count is their sum. Rows are only added, so writers do not wait for each other. Each trigger runs
-- once per statement, in the transaction of the change, whatever code makes the change.

CREATE OR REPLACE FUNCTION orders_count_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, count(*) FROM fresh GROUP BY 1, 2, 3;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER count_added AFTER INSERT ON orders_order REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_count_added();

CREATE OR REPLACE FUNCTION orders_count_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, sum(change) FROM (
    SELECT bucket, low_level_status, method, 1 AS change FROM fresh
    UNION ALL
    SELECT bucket, low_level_status, method, -1 FROM stale
  ) AS moved
  GROUP BY 1, 2, 3 HAVING sum(change) <> 0;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER count_changed AFTER UPDATE ON orders_order
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION orders_count_changed();

CREATE OR REPLACE FUNCTION orders_count_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, -count(*) FROM stale GROUP BY 1, 2, 3;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER count_deleted AFTER DELETE ON orders_order REFERENCING OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION orders_count_deleted();

CREATE OR REPLACE FUNCTION orders_count_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, -sum(change) FROM orders_ordercount
  GROUP BY 1, 2, 3 HAVING sum(change) <> 0;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER count_truncated AFTER TRUNCATE ON orders_order
  FOR EACH STATEMENT EXECUTE FUNCTION orders_count_truncated();
