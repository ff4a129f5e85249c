-- The numbers of unsigned and acknowledged reviews, as rows of changes (orders_reviewtally). Each
-- statement that changed a sum adds one row. Rows are never updated, so writers do not wait for each
-- other.
CREATE OR REPLACE FUNCTION orders_count_reviews() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
 IF TG_OP = 'UPDATE' THEN
  INSERT INTO orders_reviewtally (counted, delta)
  SELECT counted, sum(sign)::int FROM (
   SELECT CASE WHEN seen = version THEN 'seen' ELSE 'unsigned' END AS counted, 1 AS sign
   FROM fresh WHERE version > signed
   UNION ALL
   SELECT CASE WHEN seen = version THEN 'seen' ELSE 'unsigned' END, -1
   FROM gone WHERE version > signed
  ) moved GROUP BY counted HAVING sum(sign) <> 0;
 ELSIF TG_OP = 'INSERT' THEN
  INSERT INTO orders_reviewtally (counted, delta)
  SELECT CASE WHEN seen = version THEN 'seen' ELSE 'unsigned' END, count(*)
  FROM fresh WHERE version > signed GROUP BY 1;
 ELSE
  INSERT INTO orders_reviewtally (counted, delta)
  SELECT CASE WHEN seen = version THEN 'seen' ELSE 'unsigned' END, -count(*)
  FROM gone WHERE version > signed GROUP BY 1;
 END IF;
 RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER count_updated AFTER UPDATE ON orders_review
 REFERENCING NEW TABLE AS fresh OLD TABLE AS gone
 FOR EACH STATEMENT EXECUTE FUNCTION orders_count_reviews();
CREATE OR REPLACE TRIGGER count_added AFTER INSERT ON orders_review REFERENCING NEW TABLE AS fresh
 FOR EACH STATEMENT EXECUTE FUNCTION orders_count_reviews();
CREATE OR REPLACE TRIGGER count_deleted AFTER DELETE ON orders_review REFERENCING OLD TABLE AS gone
 FOR EACH STATEMENT EXECUTE FUNCTION orders_count_reviews();
