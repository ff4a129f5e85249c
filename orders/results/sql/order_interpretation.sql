-- Set the interpretation of an order to the worse of its own record's and its result's. The result
-- raises it and never lowers it. Orders without a result keep the value that was written.
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
