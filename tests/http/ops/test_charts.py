"""The geometry of charts."""

from holdfast.http.ops.charts import counts_chart, per_cent, shares_chart


def test_the_longest_bar_fills_the_width_and_a_small_one_is_seen():
    chart = counts_chart({"many": 10_000, "one": 1, "none": 0})
    assert [bar.width for bar in chart.bars] == [204.0, 2.0, 0.0]
    assert [bar.value for bar in chart.bars] == ["10,000", "1", "0"]
    assert chart.height == 84.0
    assert counts_chart({"none": 0}).bars[0].width == 0.0


def test_shares_near_the_target_get_a_scale_that_shows_tenths():
    near = shares_chart({"first": 0.95, "end": 1.0}, 0.995)
    assert (near.start, near.mark) == ("90 %", 357.8)
    assert [bar.width for bar in near.bars] == [102.0, 204.0]
    assert shares_chart({"first": 0.5, "end": 1.0}, 0.995).start == "0 %"


def test_only_all_is_called_a_hundred_per_cent():
    assert [per_cent(share) for share in (1.0, 0.99999, 0.995, 0.0)] == [
        "100 %", "99.99 %", "99.5 %", "0 %",
    ]  # fmt: skip
