-- Set the interpretation of an order to the worse of its own record's and its result's. The result
-- raises it and never lowers it. Orders without a result keep the value that was written.
-- New orders never have a result yet: it is written by an update. A trigger on each inserted row would
-- slow down COPY.
CREATE OR REPLACE FUNCTION orders_show_interpretation() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
 ranks CONSTANT text[] := ARRAY['critical', 'abnormal', 'unknown', 'normal'];
 own integer;
 of_result integer;
BEGIN
 NEW.service_interpretation := coalesce(NEW.service_interpretation, NEW.interpretation, '');
 own := array_position(ranks, NEW.service_interpretation);
 of_result := array_position(ranks, NEW.result_interpretation);
 NEW.interpretation := coalesce(ranks[least(own, of_result)], nullif(NEW.service_interpretation, ''));
 RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER show_interpretation BEFORE UPDATE ON orders_order FOR EACH ROW
 WHEN (NEW.result_interpretation IS NOT NULL) EXECUTE FUNCTION orders_show_interpretation();
